import type { ClientSession, Document } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Erasure, PersonKeys } from '#infra/mongo/schema/personal-fields/rules.ts';
import { type CollectionLink, type CollectionName, LINKED_FROM, linksBy } from '#infra/mongo/schema/personal-fields.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { filterOf, idsIn, type Located, rowsBehind, rowsIn } from './find.ts';
import { type Changed, REWRITES } from './rewrite.ts';
import { ungradedAmong } from './ungraded.ts';

/** Time limit of one step, retries included. */
export const BUDGET_MS = 30_000;
/**
 * Rows in one transaction. Those that are rewritten go one by one: an attempt may have to wait, and a generation may move to another
 * shard.
 */
const AT_ONCE = 200;

/** Rows behind such a link change only in the transaction that erases the row on which they depend. */
const WITH_THEIR_ROW: readonly Erasure[] = ['with its attempt', 'delete with its row'];

/** An erasure under way: of a person, or of what has reached the end of its retention. */
export interface Walk {
  mongo: Mongo;
  keys: PersonKeys;
  now: Date;
  /** Rows that other work still needs, by collection. */
  waiting: Map<CollectionName, number>;
  /** Counts the changes of a step in the transaction of the step. */
  count(changed: readonly Changed[], session: ClientSession): Promise<void>;
}

/** Erases the rows behind a link and, if they are deleted or rewritten, first the rows that depend on them. */
export async function eraseLink(walk: Walk, link: CollectionLink, values: readonly string[]): Promise<void> {
  const { collection, pending, waits, erase } = link;
  if (values.length === 0 || WITH_THEIR_ROW.includes(erase)) return;
  const left = { ...rowsBehind(link, values), ...pending };
  const waiting = waits === undefined ? new Set() : await allIds(walk, collection, { ...left, ...waits(walk.now) });
  note(walk, collection, waiting.size);
  // The rows leave the index range under the cursor, which does not disturb it.
  const atOnce = typeof erase === 'object' && 'rewrite' in erase ? 1 : AT_ONCE;
  for await (const rows of rowsIn(walk.mongo, collection, left, atOnce)) {
    const ready = await eraseBelow(
      walk,
      link,
      rows.filter(({ _id }) => !waiting.has(_id)),
    );
    if (ready.length > 0) await eraseRows(walk, link, left, ready);
  }
}

async function allIds({ mongo }: Walk, collection: CollectionName, filter: Document): Promise<Set<unknown>> {
  const all = new Set<unknown>();
  for await (const ids of idsIn(mongo, collection, filter, AT_ONCE)) for (const id of ids) all.add(id);
  return all;
}

function note({ waiting }: Walk, collection: CollectionName, rows: number): void {
  if (rows > 0) waiting.set(collection, (waiting.get(collection) ?? 0) + rows);
}

/** Erases rows that depend on these rows, in portions. Returns those of the rows that need not wait: erase them with `eraseTogether`. */
export async function eraseBelow(
  walk: Walk,
  { collection, erase }: CollectionLink,
  rows: readonly Located[],
): Promise<readonly Located[]> {
  if (rows.length === 0) return [];
  const below = LINKED_FROM[collection];
  if (below === undefined || (typeof erase === 'object' && 'update' in erase)) return rows;
  const ids = rows.map(({ _id }) => _id);
  if (below === 'attempt') {
    const ungraded = await ungradedAmong(walk.mongo, walk.keys.id, ids);
    note(walk, collection, ungraded.length);
    if (ungraded.length > 0) return [];
  }
  const before = waitingRows(walk);
  for (const link of linksBy(below)) await eraseLink(walk, link, ids);
  return waitingRows(walk) === before ? rows : [];
}

export function waitingRows({ waiting }: Walk): number {
  return [...waiting.values()].reduce((sum, rows) => sum + rows, 0);
}

/** Erases these rows in one transaction. A row that another run of the erasure has changed meanwhile is not counted. */
async function eraseRows(walk: Walk, link: CollectionLink, left: Document, ready: readonly Located[]): Promise<void> {
  const waiting = await inTransaction(walk.mongo, BUDGET_MS, (session) =>
    eraseTogether(walk, link, { left, ready }, session),
  );
  if (waiting !== null) note(walk, waiting.collection, waiting.rows);
}

/** Rows to erase, and the filter that they match as long as no other run has erased them. */
interface Ready {
  left: Document;
  ready: readonly Located[];
}

/**
 * Erases these rows in the caller's transaction, with all rows that depend on them, also those that have arrived since `eraseBelow`:
 * afterwards they could not be found any more. If one of those has to wait, nothing is erased; it is returned.
 */
export async function eraseTogether(
  walk: Walk,
  link: CollectionLink,
  found: Ready,
  session: ClientSession,
): Promise<{ collection: CollectionName; rows: number } | null> {
  const below = await arrivedBelow(walk, link, found.ready, session);
  const mustWait = below.find((one) => one.waiting > 0);
  if (mustWait !== undefined) return { collection: mustWait.link.collection, rows: mustWait.waiting };
  for (const one of below) await walk.count(await change(walk, one.link, one, session), session);
  await walk.count(await change(walk, link, found, session), session);
  return null;
}

/** Returns where all rows that match are, as the transaction sees them. */
export async function allRows(
  mongo: Mongo,
  collection: CollectionName,
  filter: Document,
  session: ClientSession,
): Promise<Located[]> {
  const all: Located[] = [];
  for await (const rows of rowsIn(mongo, collection, filter, AT_ONCE, session)) all.push(...rows);
  return all;
}

/** Rows behind a link, and how many of them must wait. */
interface Arrived extends Ready {
  link: CollectionLink;
  waiting: number;
}

/** Returns the rows that depend on these rows, and on those, and are left to erase, as the transaction sees them; the deepest first. */
async function arrivedBelow(
  walk: Walk,
  { collection, erase }: CollectionLink,
  rows: readonly Located[],
  session: ClientSession,
): Promise<Arrived[]> {
  const { mongo, now } = walk;
  const below = LINKED_FROM[collection];
  if (below === undefined || (typeof erase === 'object' && 'update' in erase)) return [];
  const arrived: Arrived[] = [];
  const ids = rows.map(({ _id }) => _id);
  for (const link of linksBy(below)) {
    if (link.erase === 'with its attempt') continue;
    const left = { ...rowsBehind(link, ids), ...link.pending };
    const ready = await allRows(mongo, link.collection, left, session);
    if (ready.length === 0) continue;
    const stillUsed = link.waits === undefined ? null : { ...left, ...link.waits(now) };
    const waiting = stillUsed === null ? [] : await allRows(mongo, link.collection, stillUsed, session);
    arrived.push(...(await arrivedBelow(walk, link, ready, session)), { link, left, ready, waiting: waiting.length });
  }
  return arrived;
}

async function change(
  { mongo, keys, now }: Walk,
  { collection, erase }: CollectionLink,
  { left, ready }: Ready,
  session: ClientSession,
): Promise<Changed[]> {
  const rows = mongo.db.collection<{ _id: string }>(collection);
  const these = { ...left, ...filterOf(collection, ready) };
  if (erase === 'with its attempt') return [];
  if (erase === 'delete' || erase === 'delete with its row') {
    const { deletedCount } = await rows.deleteMany(these, { session });
    return [{ collection, how: 'deleted', rows: deletedCount }];
  }
  if ('update' in erase) {
    const { matchedCount } = await rows.updateMany(these, erase.update(keys), { session });
    return [{ collection, how: 'pseudonymised', rows: matchedCount }];
  }
  const changed: Changed[] = [];
  for (const row of ready) changed.push(...(await REWRITES[erase.rewrite](mongo, row, keys, { now, session })));
  return changed;
}
