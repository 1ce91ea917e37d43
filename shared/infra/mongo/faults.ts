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
import { isNetworkFault } from '#shared/kernel/network-fault.ts';

const DUPLICATE_KEY = 11000;
const WRITE_CONFLICT = 112;
const DOCUMENT_VALIDATION_FAILURE = 121;

/**
 * Server codes that mean "not now" and say nothing about the request: elections, shutdowns, time limits, full pools,
 * locks, snapshots and cursors that are gone (43 after a restart), a session that somebody ended (11601), rate limits, a full disk or
 * another reason to take no writes, credentials that hold no more (13, 18, 391).
 */
const PASSING_CODES = new Set([
  6, 7, 13, 18, 24, 43, 50, 64, 89, 91, 94, 100, 112, 134, 175, 189, 202, 237, 239, 246, 251, 262, 267, 290, 355, 365,
  371, 391, 402, 433, 449, 450, 462, 8000, 9001, 10058, 10107, 11600, 11601, 11602, 13435, 13436, 14031,
]);

/** Wrong user or password, by MongoDB's own number and by that of Atlas. */
const AUTHENTICATION_CODES = new Set([18, 8000]);

/** The document itself was refused: it will be next time too, whatever else the server says of the reply. */
const REFUSING_CODES = new Set([DUPLICATE_KEY, DOCUMENT_VALIDATION_FAILURE]);

/** The server or the driver says that the same request, or the whole transaction, may well succeed when made again. */
const PASSING_LABELS = ['TransientTransactionError', 'RetryableWriteError'];

/** A write that met an existing unique key; `index` narrows it to the index with these key fields, in order. */
export function isDuplicateKey(error: unknown, index?: readonly string[]): boolean {
  if (!(error instanceof MongoServerError) || error.code !== DUPLICATE_KEY) return false;
  const pattern: unknown = error.keyPattern;
  if (index === undefined || typeof pattern !== 'object' || pattern === null) return true;
  return Object.keys(pattern).join() === index.join();
}

/** The transaction met another one on the same document and was thrown away; it may well succeed when made again. */
export function isWriteConflict(error: unknown): boolean {
  return error instanceof MongoServerError && error.code === WRITE_CONFLICT;
}

/**
 * MongoDB (or the way to it) is at fault, not the request: a front door answers 503, a worker puts its command back
 * without spending an attempt. Bugs and refused writes are not outages.
 */
export function isOutage(error: unknown): boolean {
  if (error instanceof MongoNetworkError || error instanceof MongoServerSelectionError) return true;
  if (error instanceof MongoOperationTimeoutError) return true;
  if (error instanceof MongoServerError && isOneOf(REFUSING_CODES, error.code)) return false;
  // Before the codes: a server newer than this list knows more of them than we do, and labels them.
  if (error instanceof MongoError && PASSING_LABELS.some((label) => error.hasErrorLabel(label))) return true;
  if (error instanceof MongoServerError) {
    if (isOneOf(PASSING_CODES, error.code)) return true;
    // insertMany and bulkWrite wrap whatever broke into an error of their own, also a lost connection.
    return error instanceof MongoBulkWriteError && isOutage(error.errorResponse);
  }
  if (error instanceof MongoUnexpectedServerResponseError || error instanceof MongoServerClosedError) return true;
  if (error instanceof MongoStalePrimaryError) return true;
  // A write into a connection that the server has just ended comes out of the driver as the socket's own error.
  if (isNetworkFault(error)) return true;
  // Pool cleared, pool closed, wait queue timed out, topology closed: named by the driver, exported by none of them.
  return error instanceof MongoDriverError && /Pool|WaitQueue|Topology|NotConnected|ClientClosed/.test(error.name);
}

/** For a person at a terminal: why MongoDB cannot be worked with, in one line; undefined when something else broke. */
export function outageInWords(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error instanceof MongoServerError && isOneOf(AUTHENTICATION_CODES, error.code)) {
    return `MongoDB refuses the user that MONGODB_URL names: ${error.message}`;
  }
  return isOutage(error) ? `MongoDB does not answer: ${error.message}` : undefined;
}

function isOneOf(codes: ReadonlySet<number>, code: unknown): boolean {
  return typeof code === 'number' && codes.has(code);
}
