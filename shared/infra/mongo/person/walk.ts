import type { ClientSession, Document } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { PersonKeys } from '#infra/mongo/schema/personal-fields/rules.ts';
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
  if (values.length === 0 || erase === 'with its attempt') return;
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

/** Erases the rows that depend on these rows. Returns those of the rows that need not wait. */
async function eraseBelow(walk: Walk, { collection, erase }: CollectionLink, rows: Located[]): Promise<Located[]> {
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

/**
 * Erases these rows in one transaction, with the rows that depend on them and have arrived since `eraseBelow`. Afterwards they could not be
 * found any more. If one of those has to wait, nothing is erased. A row that another run of the erasure has changed meanwhile no longer
 * matches, and is not counted.
 */
async function eraseRows(walk: Walk, link: CollectionLink, left: Document, rows: Located[]): Promise<void> {
  const waiting = await inTransaction(walk.mongo, BUDGET_MS, async (session) => {
    const below = await arrivedBelow(walk, link, rows, session);
    const mustWait = below.find((one) => one.waiting > 0);
    if (mustWait !== undefined) return mustWait;
    for (const one of below) await walk.count(await change(walk, one.link, one, session), session);
    await walk.count(await change(walk, link, { left, ready: rows }, session), session);
    return null;
  });
  if (waiting !== null) note(walk, waiting.link.collection, waiting.waiting);
}

/** Rows behind a link, and how many of them must wait. */
interface Arrived {
  link: CollectionLink;
  left: Document;
  ready: Located[];
  waiting: number;
}

/** Returns the rows that depend on these rows and are left to erase, as the transaction sees them. */
async function arrivedBelow(
  { mongo, now }: Walk,
  { collection, erase }: CollectionLink,
  rows: readonly Located[],
  session: ClientSession,
): Promise<Arrived[]> {
  const below = LINKED_FROM[collection];
  if (below === undefined || (typeof erase === 'object' && 'update' in erase)) return [];
  const arrived: Arrived[] = [];
  const ids = rows.map(({ _id }) => _id);
  for (const link of linksBy(below)) {
    if (link.erase === 'with its attempt') continue;
    const left = { ...rowsBehind(link, ids), ...link.pending };
    const ready: Located[] = [];
    for await (const some of rowsIn(mongo, link.collection, left, AT_ONCE, session)) ready.push(...some);
    if (ready.length === 0) continue;
    const stillUsed = link.waits === undefined ? null : { ...left, ...link.waits(now) };
    const waiting =
      stillUsed === null ? [] : await mongo.db.collection(link.collection).find(stillUsed, { session }).toArray();
    arrived.push({ link, left, ready, waiting: waiting.length });
  }
  return arrived;
}

async function change(
  { mongo, keys, now }: Walk,
  { collection, erase }: CollectionLink,
  { left, ready }: { left: Document; ready: readonly Located[] },
  session: ClientSession,
): Promise<Changed[]> {
  const rows = mongo.db.collection<{ _id: string }>(collection);
  const these = { ...left, ...filterOf(collection, ready) };
  if (erase === 'with its attempt') return [];
  if (erase === 'delete') {
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
