import { randomFillSync } from 'node:crypto';
import type { Document } from 'mongodb';

/**
 * A conditional write whose conditions MongoDB evaluates inside the update itself, by its own clock.
 *
 * The filter contains only `_id` and the shard key of the collection: it reads one document on one shard. The conditions are in the
 * pipeline. If they hold, the document gets the
 * write's `stamp`, a random word, and every change. Otherwise nothing changes. The reply contains the document in both cases, so
 * one command writes and also shows why a write was refused.
 *
 * A reader that decides outside a transaction names the stamp that it read in its commit, and so detects a write in between.
 */
export interface GuardedUpdate {
  stamp: string;
  pipeline: Document[];
}

/**
 * Returns a guarded update. Each of the `changes` maps field paths to aggregation expressions, which all read the document as the changes
 * before have left it. Wrap values from outside with `literal`. A path may lead into sub-documents, not into arrays.
 */
export function guardedUpdate(
  conditions: readonly Document[],
  ...changes: readonly Readonly<Record<string, unknown>>[]
): GuardedUpdate {
  const stamp = newStamp();
  const accepted: Document = { $eq: ['$stamp', { $literal: stamp }] };
  const newOrOldStamp: Document = { $cond: [{ $and: [...conditions] }, { $literal: stamp }, '$stamp'] };
  const stages = changes.map((one) => {
    const guarded = Object.entries(one).map(([path, change]) => [path, { $cond: [accepted, change, `$${path}`] }]);
    return { $set: Object.fromEntries(guarded) };
  });
  return { stamp, pipeline: [{ $set: { stamp: newOrOldStamp } }, ...stages] };
}

/**
 * Returns the update for several documents in one statement, which costs the server a fraction of one statement for each. An accepted
 * document gets a stamp of its own, the stamp of the update and then its `_id`: no two documents ever have the same one.
 */
export function ofMany({ stamp, pipeline }: GuardedUpdate): { pipeline: Document[]; stampOf(id: string): string } {
  const own = { $cond: [{ $eq: ['$stamp', literal(stamp)] }, { $concat: [literal(stamp), '$_id'] }, '$stamp'] };
  return { pipeline: [...pipeline, { $set: { stamp: own } }], stampOf: (id) => stamp + id };
}

/** Returns true if the conditions held: the returned document has the stamp of this write. */
export function wasAccepted(update: GuardedUpdate, document: object | null): boolean {
  return document !== null && 'stamp' in document && document.stamp === update.stamp;
}

const STAMP_BYTES = 8;
/** Random bytes of the next stamps. A call for each stamp costs more than the rest of a guarded update. */
const random = Buffer.alloc(512 * STAMP_BYTES);
let used = random.length;

/** Returns a stamp for one write: 64 random bits, URL-safe. */
export function newStamp(): string {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  used += STAMP_BYTES;
  return random.toString('base64url', used - STAMP_BYTES, used);
}

/** A document with guarded writes. */
export interface Stamped {
  /** The random word of the last accepted guarded write; absent until the first one. */
  stamp?: string;
}

/** Wraps a value from outside for a pipeline. Otherwise MongoDB would read a text that begins with `$` as a field path. */
export function literal(value: unknown): Document {
  return { $literal: value };
}

/**
 * MongoDB's own time inside an update, as Unix milliseconds.
 *
 * Deadlines and leases are compared as numbers, not as dates. This works around the stand-in in Python (docs/engines.md): its
 * `$$NOW` has another type than stored dates, so a comparison would go by type and a deadline would never pass.
 */
export const NOW_MS: Document = { $toLong: '$$NOW' };

/** Returns the expression for a stored date field as Unix milliseconds. null stays null, which sorts before every number. */
export function msOf(path: string): Document {
  return { $toLong: path };
}

/**
 * Returns the expression for `$$NOW` plus `ms` milliseconds, as a date. It adds numbers, because the stand-in in Rust
 * (docs/engines.md) cannot add a number to a date.
 */
export function nowPlus(ms: number | Document): Document {
  return { $toDate: { $add: [NOW_MS, ms] } };
}

/**
 * Thrown if another writer changed a document between the read on which a decision is based and its commit. The caller discards
 * the decision and makes it again on the current document. This is no failure and spends no attempt.
 */
export class Stale extends Error {
  constructor(what: string) {
    super(`${what} changed between load and commit`);
    this.name = 'Stale';
  }
}
