import { hash } from 'node:crypto';

/** One answered request. */
export interface AccessLine {
  requestId: string;
  /** The id that an unproven client has chosen. */
  clientRequestId: string | undefined;
  traceId: string | undefined;
  /** The attempt that the path names. */
  attemptId: string | undefined;
  /** The command for which the request waited. */
  commandId: string | undefined;
  method: string;
  /** The route template. Actual paths would contain ids. */
  route: string;
  status: number;
  /** From the head of the request to its reply, in milliseconds. */
  ms: number;
  actorId: string | undefined;
  /** The role of an ADMIN or TEACHER and the ids in the path, by the route's parameter names. Undefined for other callers. */
  staff: { role: string; objectIds: Readonly<Record<string, string>> } | undefined;
}

const LEVEL_INFO = 30;

/**
 * Returns a function that writes request lines in the logger's format without the logger, because there is one per request. Its
 * fields need neither redaction nor escaping. The ids of the request, the trace and the path have been validated; method, route, role
 * and names are constants, and the caller is written as a hash.
 */
export function accessWriter(name: string, sink: { write(text: string): void }): (line: AccessLine) => void {
  let stampedAt = 0;
  let stamp = '';
  return ({ requestId, clientRequestId, traceId, attemptId, commandId, method, route, status, ms, actorId, staff }) => {
    const actor = actorId === undefined ? '' : `,"actor":"${actorHash(actorId)}"`;
    const client = clientRequestId === undefined ? '' : `,"clientRequestId":"${clientRequestId}"`;
    const trace = traceId === undefined ? '' : `,"traceId":"${traceId}"`;
    const attempt = attemptId === undefined ? '' : `,"attemptId":"${attemptId}"`;
    const command = commandId === undefined ? '' : `,"commandId":"${commandId}"`;
    const read = staff === undefined ? '' : staffFields(staff);
    const now = Date.now();
    if (now !== stampedAt) {
      stampedAt = now;
      stamp = new Date(now).toISOString();
    }
    sink.write(
      `{"level":${LEVEL_INFO},"time":"${stamp}","name":"${name}","requestId":"${requestId}"${client}${trace},` +
        `"method":"${method}","route":"${route}","status":${status},"ms":${ms.toFixed(2)}` +
        `${actor}${attempt}${command}${read},"msg":"request"}\n`,
    );
  };
}

function staffFields({ role, objectIds }: NonNullable<AccessLine['staff']>): string {
  const ids = Object.entries(objectIds).map(([name, id]) => `"${name}":"${id}"`);
  return `,"role":"${role}"${ids.length === 0 ? '' : `,"objectIds":{${ids.join()}}`}`;
}

/** Maximum number of cached actor hashes. */
const REMEMBERED = 10_000;
const hashes = new Map<string, string>();

/**
 * Returns twelve hex digits by which an operator can follow one caller through the log without knowing its identity. They are cached,
 * because hashing costs more than the rest of a log line.
 */
export function actorHash(actorId: string): string {
  let hashed = hashes.get(actorId);
  if (hashed === undefined) {
    if (hashes.size >= REMEMBERED) hashes.clear();
    hashed = hash('sha256', actorId, 'hex').slice(0, 12);
    hashes.set(actorId, hashed);
  }
  return hashed;
}
