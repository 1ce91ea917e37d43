import type { ClientSession, Document } from 'mongodb';
import { type AccountRow, accounts } from '#infra/mongo/auth/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { newStamp } from '#infra/mongo/guarded-update.ts';
import { type OperatorAct, writeAudit } from '#infra/mongo/operator-audit.ts';
import type { PersonKeys } from '#infra/mongo/schema/personal-fields/rules.ts';
import { type CollectionLink, type CollectionName, LINKED_FROM, linksBy } from '#infra/mongo/schema/personal-fields.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import {
  countErased,
  type ErasedPerson,
  erasedPersons,
  findTombstone,
  newPseudonym,
  openTombstone,
  tombstoneId,
} from './erased-persons.ts';
import { countRows, findPerson, idsIn, type Person, rowsBehind } from './find.ts';
import { type Changed, REWRITES } from './rewrite.ts';
import { ungradedAmong } from './ungraded.ts';

const BUDGET_MS = 30_000;
/** Rows in one transaction. Attempts go one by one: an attempt waits if a row of its own must wait. */
const AT_ONCE = 200;

/**
 * `waiting`: these rows are still needed by other work; the next run goes on with them. `erased`: complete, by this run or, with
 * `already`, by an earlier one.
 */
export type Erasing =
  | { kind: 'waiting'; tombstone: ErasedPerson; rows: ReadonlyMap<CollectionName, number> }
  | { kind: 'erased'; tombstone: ErasedPerson; already: boolean };

/** An erasure under way. */
interface Run {
  mongo: Mongo;
  keys: PersonKeys;
  tombstone: ErasedPerson;
  now: Date;
  waiting: Map<CollectionName, number>;
}

/**
 * Erases a person, along the links of the register. Every step is a transaction that also counts what it changed, and finds only rows
 * that are left. A process that is killed at any point loses nothing: the next call goes on. A call after the end erases what
 * arrived since, if anything did.
 */
export async function erasePerson(mongo: Mongo, id: string, act: OperatorAct): Promise<Erasing> {
  const person = await findPerson(mongo, id);
  const earlier = await findTombstone(mongo, id);
  if (earlier?.state === 'ERASED') {
    if ((await countRows(mongo, person)).size === 0) return { kind: 'erased', tombstone: earlier, already: true };
    await erasedPersons(mongo).updateOne(
      { _id: earlier._id, state: 'ERASED' },
      { $set: { state: 'ERASING', pseudonym: newPseudonym() } },
    );
  }
  const tombstone = await openTombstone(mongo, id, act);
  if (tombstone.pseudonym === null) throw new Error('another process has just finished this erasure; run it again');
  const keys = { id, pseudonym: tombstone.pseudonym };
  const run: Run = { mongo, keys, tombstone, now: new Date(act.now), waiting: new Map() };
  await closeAccount(run);
  for (const link of linksBy('person', 'email')) await eraseLink(run, link, valuesFor(person, link));
  if (run.waiting.size > 0) return { kind: 'waiting', tombstone: await stored(run), rows: run.waiting };
  await finish(run, act);
  return { kind: 'erased', tombstone: await stored(run), already: false };
}

function valuesFor({ id, emailDigest }: Person, { by }: CollectionLink): string[] {
  if (by === 'person') return [id];
  return emailDigest === null ? [] : [emailDigest];
}

async function stored({ mongo, tombstone }: Run): Promise<ErasedPerson> {
  return (await erasedPersons(mongo).findOne({ _id: tombstone._id })) ?? tombstone;
}

/** Refuses further logins before the sessions are deleted. A login that is in flight writes the same row, so one of the two fails. */
async function closeAccount({ mongo, keys }: Run): Promise<void> {
  const status: AccountRow['status'] = 'DELETED';
  await accounts(mongo).updateOne({ _id: keys.id, status: { $ne: status } }, { $set: { status, stamp: newStamp() } });
}

/** Erases the rows behind a link and, if they are deleted or rewritten, first the rows that depend on them. */
async function eraseLink(run: Run, link: CollectionLink, values: readonly string[]): Promise<void> {
  const { collection, pending, waits, erase } = link;
  if (values.length === 0 || erase === 'with its attempt') return;
  const left = { ...rowsBehind(link, values), ...pending };
  const waiting = waits === undefined ? new Set() : await allIds(run, collection, { ...left, ...waits(run.now) });
  note(run, collection, waiting.size);
  // The rows leave the index range under the cursor, which does not disturb it.
  for await (const ids of idsIn(run.mongo, collection, left, collection === 'attempts' ? 1 : AT_ONCE)) {
    const ready = await eraseBelow(
      run,
      link,
      ids.filter((id) => !waiting.has(id)),
    );
    if (ready.length > 0) await eraseRows(run, link, ready);
  }
}

async function allIds({ mongo }: Run, collection: CollectionName, filter: Document): Promise<Set<unknown>> {
  const all = new Set<unknown>();
  for await (const ids of idsIn(mongo, collection, filter, AT_ONCE)) for (const id of ids) all.add(id);
  return all;
}

function note({ waiting }: Run, collection: CollectionName, rows: number): void {
  if (rows > 0) waiting.set(collection, (waiting.get(collection) ?? 0) + rows);
}

/** Erases the rows that depend on these rows. Returns the ids of those rows that need not wait. */
async function eraseBelow(run: Run, { collection, erase }: CollectionLink, ids: string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const below = LINKED_FROM[collection];
  if (below === undefined || (typeof erase === 'object' && 'update' in erase)) return ids;
  if (below === 'attempt') {
    const ungraded = await ungradedAmong(run.mongo, ids);
    note(run, collection, ungraded.length);
    if (ungraded.length > 0) return [];
  }
  const before = waitingRows(run);
  for (const link of linksBy(below)) await eraseLink(run, link, ids);
  return waitingRows(run) === before ? ids : [];
}

function waitingRows({ waiting }: Run): number {
  return [...waiting.values()].reduce((sum, rows) => sum + rows, 0);
}

async function eraseRows(run: Run, link: CollectionLink, ids: string[]): Promise<void> {
  const { mongo, tombstone } = run;
  await inTransaction(mongo, BUDGET_MS, async (session) => {
    await countErased(mongo, tombstone, await change(run, link, ids, session), session);
  });
}

async function change(
  { mongo, keys, now }: Run,
  { collection, erase }: CollectionLink,
  ids: string[],
  session: ClientSession,
): Promise<Changed[]> {
  const rows = mongo.db.collection<{ _id: string }>(collection);
  const these = { _id: { $in: ids } };
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
  for (const id of ids) changed.push(...(await REWRITES[erase.rewrite](mongo, id, keys, { now, session })));
  return changed;
}

/** Closes the tombstone and writes the audit line, both or neither. The pseudonym is forgotten, so that it leads back to no id. */
async function finish({ mongo, keys }: Run, act: OperatorAct): Promise<void> {
  const _id = tombstoneId(keys.id);
  await inTransaction(mongo, BUDGET_MS, async (session) => {
    const closed = await erasedPersons(mongo).findOneAndUpdate(
      { _id, state: 'ERASING' },
      { $set: { state: 'ERASED', pseudonym: null, erasedAt: new Date(act.now) } },
      { session, returnDocument: 'after' },
    );
    if (closed === null) return;
    await writeAudit(mongo, act, { action: 'account.erase', subject: _id, detail: sumsOf(closed) }, session);
  });
}

/** Returns the sums of a receipt over all collections. */
export function sumsOf({ counts }: Pick<ErasedPerson, 'counts'>): { deleted: number; pseudonymised: number } {
  const sums = { deleted: 0, pseudonymised: 0 };
  for (const { deleted = 0, pseudonymised = 0 } of Object.values(counts)) {
    sums.deleted += deleted;
    sums.pseudonymised += pseudonymised;
  }
  return sums;
}
