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
  /** Keyed hash of the caller's id, by which an operator follows one caller through the log without knowing the id. */
  actor: string | undefined;
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
  return ({ requestId, clientRequestId, traceId, attemptId, commandId, method, route, status, ms, actor, staff }) => {
    const caller = actor === undefined ? '' : `,"actor":"${actor}"`;
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
        `${caller}${attempt}${command}${read},"msg":"request"}\n`,
    );
  };
}

function staffFields({ role, objectIds }: NonNullable<AccessLine['staff']>): string {
  const ids = Object.entries(objectIds).map(([name, id]) => `"${name}":"${id}"`);
  return `,"role":"${role}"${ids.length === 0 ? '' : `,"objectIds":{${ids.join()}}`}`;
}
