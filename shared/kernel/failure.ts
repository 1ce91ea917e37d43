/**
 * Why a command failed, as far as the next step of an operator depends on it. It is stored beside the message of the error. The codes are
 * stable: a trace of a later version reads rows of this one.
 * - `WORKER_KILLED`: the worker of the last attempt ended without settling the command.
 * - `POISONED`: its claims lapsed three times in a row, at last in a run alone.
 * - `RECEIVER_REFUSED`: the receiver refuses it for good.
 * - `MISCONFIGURED`: the receiver refuses the token, the sender or the address.
 * - `CIRCUIT_OPEN`: calls to the model provider are suspended.
 * - `WALLET_EMPTY`: the wallet of the organization does not cover the price.
 * - `OWNER_FAILED`: the usage or the wallet service failed, or did not answer.
 */
export type FailureCode =
  | 'WORKER_KILLED'
  | 'POISONED'
  | 'RECEIVER_REFUSED'
  | 'MISCONFIGURED'
  | 'CIRCUIT_OPEN'
  | 'WALLET_EMPTY'
  | 'OWNER_FAILED';

/** An error that names its code. */
interface Coded {
  readonly failure: FailureCode | null;
}

/** Returns an error with its code, for a failure that has no class of its own. */
export function coded(failure: FailureCode | null, message: string): Error & Coded {
  return Object.assign(new Error(message), { failure });
}

/** A dependency that refused the settings of a call, by its name in snake_case, and the status with which it did. */
export interface Refusal {
  service: string;
  status: number;
}

/** An error whose cause is a refusal of settings. Operators see the service and the status, and correct the setting. */
interface Refused extends Coded {
  readonly failure: 'MISCONFIGURED';
  readonly refusal: Refusal;
}

/** Marks an error as a refusal of the token, the sender or the address. Returns the error. */
export function asRefused<E extends Error>(error: E, refusal: Refusal): E & Refused {
  return Object.assign(error, { failure: 'MISCONFIGURED', refusal } as const);
}

/** Returns the error, marked as a refusal if a reply of this status is one. */
export function refusedBy<E extends Error>(error: E, refusal: Refusal): E {
  return refusesSettings(refusal.status) ? asRefused(error, refusal) : error;
}

/** Returns the refusal that an error names, or null. */
export function refusalIn(error: Error): Refusal | null {
  return 'refusal' in error ? (error as Error & Refused).refusal : null;
}

/** Returns the code of an error, or null if it names none. */
export function failureIn(error: Error): FailureCode | null {
  return 'failure' in error ? ((error as Error & Coded).failure ?? null) : null;
}

/** Statuses of a wrong token, sender or address. The configuration is at fault, and not what was sent. */
const WRONG_SETTINGS = new Set([401, 403, 404, 405]);

/** Returns true if a reply of this status refuses the token, the sender or the address of a call. */
function refusesSettings(status: number): boolean {
  return WRONG_SETTINGS.has(status);
}

/**
 * Returns true if the other end could not be reached or the connection broke: refused, reset, closed or host name unresolved.
 * The request itself is not at fault. A reply, even a 500, and no reply until the timeout are failures of the neighbour: false.
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
  'ECONNABORTED',
  'ENOTFOUND',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'EPIPE',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_WRITE_AFTER_END',
  'UND_ERR_SOCKET',
  'UND_ERR_CONNECT_TIMEOUT',
]);
