/**
 * A call to another service that found nobody: refused, reset, unresolved. The command is not at fault, so its
 * attempt is not spent. An answer, even a 500, and silence until the timeout are the neighbour's own and do spend.
 */
export function isNetworkFault(error: unknown): boolean {
  for (let cause: unknown = error, depth = 0; cause instanceof Error && depth < 5; cause = cause.cause, depth++) {
    const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
    if (NETWORK_CODES.has(code)) return true;
  }
  return false;
}

const NETWORK_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'EPIPE',
  'UND_ERR_SOCKET',
  'UND_ERR_CONNECT_TIMEOUT',
]);
