import { randomUUID } from 'node:crypto';

const ACCEPTED = /^[\w.-]{1,128}$/;

/** The caller's X-Request-Id when it is harmless in a header and a log line, else a new one. */
export function requestIdOf(header: string | string[] | undefined): string {
  return typeof header === 'string' && ACCEPTED.test(header) ? header : randomUUID();
}
