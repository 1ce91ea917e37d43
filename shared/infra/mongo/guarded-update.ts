import { randomBytes } from 'node:crypto';
import type { Document } from 'mongodb';

/**
 * A conditional write whose condition is judged inside the update itself, under MongoDB's own clock.
 *
 * The filter of such a write is `{_id}` alone, a point read on any server; the conditions stand in the pipeline. If
 * they hold, the document takes the write's `stamp`, a random word, and every change; if not, nothing changes and
 * the reply carries the document as it is, so that one command both tries and tells. The stamp also serves readers
 * that decide outside a transaction: their commit names the stamp that they read, and a write between is noticed.
 */
export interface GuardedUpdate {
  stamp: string;
  pipeline: Document[];
}

/**
 * `changes` maps field paths to aggregation expressions, all evaluated on the document as it was; values that come
 * from outside must be wrapped with `literal`. Paths may be dotted into sub-documents, not into arrays.
 */
export function guardedUpdate(
  conditions: readonly Document[],
  changes: Readonly<Record<string, unknown>>,
): GuardedUpdate {
  const stamp = newStamp();
  const accepted: Document = { $eq: ['$stamp', { $literal: stamp }] };
  const taken: Document = { $cond: [{ $and: [...conditions] }, { $literal: stamp }, '$stamp'] };
  const guarded: Document = {};
  for (const [path, change] of Object.entries(changes)) guarded[path] = { $cond: [accepted, change, `$${path}`] };
  return { stamp, pipeline: [{ $set: { stamp: taken } }, { $set: guarded }] };
}

/** Whether the document that the write returned is the one that it made. */
export function wasAccepted(update: GuardedUpdate, document: object | null): boolean {
  return document !== null && 'stamp' in document && document.stamp === update.stamp;
}

/** A stamp for one write: 64 random bits, URL-safe. */
export function newStamp(): string {
  return randomBytes(8).toString('base64url');
}

/** The random word of the last guarded write; absent until the first one. */
export interface Stamped {
  stamp?: string;
}

/** A value from outside inside a pipeline: without this, text beginning with `$` would be read as a field path. */
export function literal(value: unknown): Document {
  return { $literal: value };
}

/**
 * MongoDB's own time inside an update, as Unix milliseconds. Deadlines and leases are compared as numbers and not as dates, a
 * workaround for the stand-in in Python (docs/engines.md): its `$$NOW` is of another type than stored dates, and comparing the two
 * orders by type, which would let a deadline never pass.
 */
export const NOW_MS: Document = { $toLong: '$$NOW' };

/** A stored date field as Unix milliseconds; null stays null and sorts before every number. */
export function msOf(path: string): Document {
  return { $toLong: path };
}

/** `$$NOW` plus so many milliseconds, as a date. Numbers are added: the stand-in in Rust (docs/engines.md) adds none to a date. */
export function nowPlus(ms: number | Document): Document {
  return { $toDate: { $add: [NOW_MS, ms] } };
}

/**
 * A document was written by somebody else between the load on which a decision rests and its commit. The decision is
 * thrown away and made again on what is there now; nobody is at fault and no attempt is spent.
 */
export class Stale extends Error {
  constructor(what: string) {
    super(`${what} changed between load and commit`);
    this.name = 'Stale';
  }
}
