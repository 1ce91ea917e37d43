import {
  MongoBulkWriteError,
  MongoDriverError,
  MongoError,
  MongoNetworkError,
  MongoOperationTimeoutError,
  MongoServerClosedError,
  MongoServerError,
  MongoServerSelectionError,
  MongoStalePrimaryError,
  MongoUnexpectedServerResponseError,
} from 'mongodb';
import { isNetworkFault } from '#shared/kernel/failure.ts';

const INVALID_OPTIONS = 72;
const DUPLICATE_KEY = 11000;
const WRITE_CONFLICT = 112;
const DOCUMENT_VALIDATION_FAILURE = 121;

/**
 * Codes of temporary failures that only a sharded cluster has, and which outside of transactions come without a label. A router found no
 * primary of a shard within 15 seconds (133), or had no connection to it (407), or shuts down (90). Rows or collections move, and a router did
 * not learn in time where to (82, 150, 249, 250, 272, 319, 343, 13388). A shard is starting (203), or steps down while it commits (281, 282).
 */
const PASSING_CODES_OF_SHARDS = [82, 90, 133, 150, 203, 249, 250, 272, 281, 282, 319, 343, 407, 13388];

/**
 * Server codes of temporary failures that are independent of the request: elections, shutdowns, time limits, full pools, locks, lost
 * snapshots and cursors (43 after a restart). Also an interrupted session (11601), rate limits, a full disk and other blocks of
 * writes, and credentials that are no longer valid (13, 18, 391).
 */
const PASSING_CODES_OF_SERVERS = [
  6, 7, 13, 18, 24, 43, 50, 64, 89, 91, 94, 100, 112, 134, 175, 189, 202, 237, 239, 246, 251, 262, 267, 290, 355, 365,
  371, 391, 402, 433, 449, 450, 462, 8000, 9001, 10058, 10107, 11600, 11601, 11602, 13435, 13436, 14031,
];

const PASSING_CODES = new Set([...PASSING_CODES_OF_SERVERS, ...PASSING_CODES_OF_SHARDS]);

/** Wrong user or password: the code of MongoDB and the code of Atlas. */
const AUTHENTICATION_CODES = new Set([18, 8000]);

/** The document itself was refused. A repeat would be refused too, even if the error also has a label for retries. */
const REFUSING_CODES = new Set([DUPLICATE_KEY, DOCUMENT_VALIDATION_FAILURE]);

/** Labels of the server or the driver for a request or transaction that may succeed if it is repeated. */
const PASSING_LABELS = ['TransientTransactionError', 'RetryableWriteError'];

/**
 * Returns true for a write that met an existing unique key; with `index`, only for the index with these key fields in this order. An
 * error without `keyPattern` counts for every index. Only bulk writes have such errors, because the probe refuses a server whose
 * other errors have none. A caller that passes `index` sends no bulk write, or reads again which row it met.
 */
export function isDuplicateKey(error: unknown, index?: readonly string[]): boolean {
  if (!(error instanceof MongoServerError) || error.code !== DUPLICATE_KEY) return false;
  const pattern: unknown = error.keyPattern;
  if (index === undefined || typeof pattern !== 'object' || pattern === null) return true;
  return Object.keys(pattern).join() === index.join();
}

/** Returns true for an unordered bulk insert that was refused some rows, each because it exists. Its other rows are stored. */
export function isOnlyDuplicateKeys(error: unknown): boolean {
  if (!(error instanceof MongoBulkWriteError) || error.result.getWriteConcernError() !== undefined) return false;
  const faults = error.result.getWriteErrors();
  return faults.length > 0 && faults.every(({ code }) => code === DUPLICATE_KEY);
}

/**
 * Returns the positions of the rows that an unordered bulk insert was refused, except rows that exist. All others are stored. Returns null
 * after any other failure, which may have stored a part.
 */
export function refusedRows(error: unknown): number[] | null {
  if (!(error instanceof MongoBulkWriteError) || error.result.getWriteConcernError() !== undefined) return null;
  const faults = error.result.getWriteErrors();
  if (faults.length === 0 || faults.some(({ code }) => isOneOf(PASSING_CODES, code))) return null;
  return faults.flatMap(({ code, index }) => (code === DUPLICATE_KEY ? [] : [index]));
}

/** Returns true if the transaction was aborted because another one wrote the same document. It may succeed if it is repeated. */
export function isWriteConflict(error: unknown): boolean {
  return error instanceof MongoServerError && error.code === WRITE_CONFLICT;
}

/**
 * Returns true for a causal read of a time that the server has not reached: its clock went back in a restart. It passes as the clock
 * does. The code is that of every wrong option, so the text decides.
 */
function isClockBehind({ code, message }: MongoServerError): boolean {
  return code === INVALID_OPTIONS && message.includes('afterClusterTime');
}

/**
 * Returns true if MongoDB or the network is at fault, not the request. A front door then answers 503, and a worker snoozes its
 * command without spending an attempt. Bugs and refused writes are not outages.
 */
export function isOutage(error: unknown): boolean {
  if (error instanceof MongoNetworkError || error instanceof MongoServerSelectionError) return true;
  if (error instanceof MongoOperationTimeoutError) return true;
  if (error instanceof MongoServerError && isOneOf(REFUSING_CODES, error.code)) return false;
  // Check labels before codes: a newer server may have codes that this list lacks, and labels them.
  if (error instanceof MongoError && PASSING_LABELS.some((label) => error.hasErrorLabel(label))) return true;
  if (error instanceof MongoServerError) {
    if (isOneOf(PASSING_CODES, error.code) || isClockBehind(error)) return true;
    // insertMany and bulkWrite wrap every failure, even a lost connection, into their own error.
    return error instanceof MongoBulkWriteError && isOutage(error.errorResponse);
  }
  if (error instanceof MongoUnexpectedServerResponseError || error instanceof MongoServerClosedError) return true;
  if (error instanceof MongoStalePrimaryError) return true;
  // A write to a connection that the server has just closed fails with the socket's own error.
  if (isNetworkFault(error)) return true;
  // Pool cleared, pool closed, wait queue timed out, topology closed: the driver does not export these classes, so test the name.
  return error instanceof MongoDriverError && /Pool|WaitQueue|Topology|NotConnected|ClientClosed/.test(error.name);
}

/**
 * Returns true if the server did not answer a command for many callers. Each of them alone would not be answered either. After any other
 * failure one of them may be the cause, as one whose shard is down.
 */
export function isUnanswered(error: unknown): boolean {
  return isOutage(error) && !(error instanceof MongoError && typeof error.code === 'number');
}

/** Returns true for an outage of MongoDB. A network fault counts only if MongoDB's driver reports it, and not a channel or neighbour. */
export function isStoreOutage(error: unknown): boolean {
  return error instanceof MongoError && isOutage(error);
}

/** The reply to a query whose hint names no index: BadValue, whose code many other faults share. */
const NO_SUCH_INDEX = /does not correspond to an existing index/;

/** Returns in one line, for an operator, why MongoDB cannot be used: an outage, or a missing index. Undefined for any other error. */
export function outageInWords(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error instanceof MongoServerError && isOneOf(AUTHENTICATION_CODES, error.code)) {
    return `MongoDB refuses the user that MONGODB_URL names: ${error.message}`;
  }
  if (error instanceof MongoServerError && NO_SUCH_INDEX.test(error.message))
    return 'MongoDB lacks an index that this version names: run `examhall migrate`';
  return isOutage(error) ? `MongoDB does not answer: ${error.message}` : undefined;
}

function isOneOf(codes: ReadonlySet<number>, code: unknown): boolean {
  return typeof code === 'number' && codes.has(code);
}
