import type { Document } from 'mongodb';

/**
 * MongoDB's own time inside an update, as Unix milliseconds. Deadlines and leases are compared as numbers and not
 * as dates: some servers that speak MongoDB's protocol hold `$$NOW` in another date type than stored dates, and
 * comparing the two kinds orders by type, which would let a deadline never pass.
 */
export const NOW_MS: Document = { $toLong: '$$NOW' };

/** A stored date field as Unix milliseconds; null stays null and sorts before every number. */
export function msOf(path: string): Document {
  return { $toLong: path };
}

/** `$$NOW` plus so many milliseconds, as a date. */
export function nowPlus(ms: number | Document): Document {
  return { $add: ['$$NOW', ms] };
}
