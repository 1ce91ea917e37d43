import { hash as digest } from 'node:crypto';

/** The place of a row in the chain: its number from 1, the hash of the row before it, and the hash of the row itself. */
export interface Link {
  seq: number;
  previous: string;
  hash: string;
}

/** A row as MongoDB returns it: the link is unproved. */
export type StoredRow = { _id: string } & Readonly<Record<string, unknown>>;

/** `previous` of row 1. */
const NO_ROW = '0'.repeat(64);

/** Ids of rows are between these two. A row elsewhere was inserted past the chain. */
export const CHAINED = { from: 'seq:', to: 'seq;' } as const;

/** Returns the `_id` of a row by its number. Its unique index admits one row for each number; ids sort as their numbers do. */
export function linkId(seq: number): string {
  return `${CHAINED.from}${String(seq).padStart(12, '0')}`;
}

/** Returns the row with the link that continues the chain after `head`; null means that the chain has no row yet. */
export function linked<Row extends object>(row: Row, head: Pick<Link, 'seq' | 'hash'> | null) {
  const seq = (head?.seq ?? 0) + 1;
  const open = { _id: linkId(seq), ...row, seq, previous: head?.hash ?? NO_ROW };
  return { ...open, hash: hashOf(open) };
}

/** Returns the SHA-256 of a row in its canonical form, in hex: every stored field except `hash`, ordered by name at every depth. */
function hashOf({ hash: _, ...row }: Readonly<Record<string, unknown>>): string {
  return digest('sha256', canonical(row), 'hex');
}

function canonical(value: unknown): string {
  if (value instanceof Date) return `{"$date":${JSON.stringify(value.toISOString())}}`;
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const fields = Object.entries(value).filter(([, member]) => member !== undefined);
  fields.sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${fields.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join()}}`;
}

/**
 * Returns the fault of a row that must continue the chain after `before`, or null. Without `before` it must be row 1.
 *
 * The rows are read in the order of their ids, so a lower number than expected means that a row was moved.
 */
export function faultOf(row: StoredRow, before: Pick<Link, 'seq' | 'hash'> | null): string | null {
  const seq = (before?.seq ?? 0) + 1;
  if (row._id > linkId(seq)) return `row ${seq} is missing`;
  if (row._id !== linkId(seq) || row.seq !== seq) return `row ${seq} was reordered: its place holds another row`;
  if (row.hash !== hashOf(row)) return `row ${seq} was altered: its content does not match its hash`;
  if (row.previous === (before?.hash ?? NO_ROW)) return null;
  return `row ${seq} does not continue row ${seq - 1}: one of the two was replaced`;
}

/** Returns the fault of the row at a noted number and hash, or null. Its hash covers every row before it. */
export function faultOfNoted(row: StoredRow | null, noted: Pick<Link, 'seq' | 'hash'>): string | null {
  if (row === null) return `row ${noted.seq} is missing`;
  if (row.seq !== noted.seq) return `row ${noted.seq} was reordered: its place holds another row`;
  if (row.hash !== hashOf(row)) return `row ${noted.seq} was altered: its content does not match its hash`;
  return row.hash === noted.hash
    ? null
    : `row ${noted.seq} does not have the noted hash: it, or a row before it, was replaced`;
}
