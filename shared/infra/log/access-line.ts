import { hash } from 'node:crypto';

/** One answered request. */
export interface AccessLine {
  requestId: string;
  method: string;
  /** Path as mounted: paths as sent would carry ids. */
  route: string;
  status: number;
  /** From the head of the request to its reply, in milliseconds. */
  ms: number;
  actorId: string | undefined;
}

const LEVEL_INFO = 30;

/**
 * Writes request lines past the logger, in its format: there is one per request, and its fields need neither
 * redaction nor escaping. The request id has been checked, method, route and name are our own words, the caller
 * stands there as a hash.
 */
export function accessWriter(name: string, sink: { write(text: string): void }): (line: AccessLine) => void {
  let stampedAt = 0;
  let stamp = '';
  return ({ requestId, method, route, status, ms, actorId }) => {
    const actor = actorId === undefined ? '' : `,"actor":"${actorHash(actorId)}"`;
    const now = Date.now();
    if (now !== stampedAt) {
      stampedAt = now;
      stamp = new Date(now).toISOString();
    }
    sink.write(
      `{"level":${LEVEL_INFO},"time":"${stamp}","name":"${name}","requestId":"${requestId}",` +
        `"method":"${method}","route":"${route}","status":${status},"ms":${ms.toFixed(2)}${actor},"msg":"request"}\n`,
    );
  };
}

const REMEMBERED = 10_000;
const hashes = new Map<string, string>();

/**
 * Twelve hex digits that let an operator follow one caller through the log without learning who it is. Remembered for
 * the callers of the moment: hashing costs more than the rest of a log line.
 */
function actorHash(actorId: string): string {
  let hashed = hashes.get(actorId);
  if (hashed === undefined) {
    if (hashes.size >= REMEMBERED) hashes.clear();
    hashed = hash('sha256', actorId, 'hex').slice(0, 12);
    hashes.set(actorId, hashed);
  }
  return hashed;
}
