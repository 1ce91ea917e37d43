import { type AccountRow, accounts } from '#infra/mongo/auth/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import {
  countErased,
  type ErasedPerson,
  erasedPersons,
  findTombstone,
  newPseudonym,
  openTombstone,
  secondPass,
} from '#infra/mongo/erased-persons.ts';
import { newStamp } from '#infra/mongo/guarded-update.ts';
import { actAsOperator, type OperatorAct } from '#infra/mongo/operator-audit.ts';
import { type CollectionLink, type CollectionName, linksBy } from '#infra/mongo/schema/personal-fields.ts';
import { countRows, findPerson, type Person } from './find.ts';
import { eraseLink, type Walk } from './walk.ts';

/**
 * `waiting`: these rows are still needed by other work; the next run goes on with them. `erased`: complete, by this run or, with
 * `already`, by an earlier one.
 */
export type Erasing =
  | { kind: 'waiting'; tombstone: ErasedPerson; rows: ReadonlyMap<CollectionName, number> }
  | { kind: 'erased'; tombstone: ErasedPerson; already: boolean };

/**
 * Erases a person, along the links of the register. Every step is a transaction that also counts what it changed, and finds only rows
 * that are left. A process that is killed at any point loses nothing: the next call goes on, at the latest the second pass. A call after
 * the end erases what arrived since, if anything did, and plans another pass.
 */
export async function erasePerson(mongo: Mongo, id: string, act: OperatorAct): Promise<Erasing> {
  const person = await findPerson(mongo, id);
  const earlier = await findTombstone(mongo, id);
  if (earlier?.state === 'ERASED') {
    if ((await countRows(mongo, person)).size === 0) return { kind: 'erased', tombstone: earlier, already: true };
    await erasedPersons(mongo).updateOne(
      { _id: earlier._id, state: 'ERASED' },
      { $set: { state: 'ERASING', pseudonym: newPseudonym(), again: secondPass(id, act) } },
    );
  }
  const tombstone = await openTombstone(mongo, id, act);
  if (tombstone.pseudonym === null) throw new Error('another process has just finished this erasure; run it again');
  const keys = { id, pseudonym: tombstone.pseudonym };
  const walk: Walk = {
    mongo,
    keys,
    now: new Date(act.now),
    waiting: new Map(),
    count: (changed, session) => countErased(mongo, tombstone, changed, session),
  };
  await closeAccount(walk);
  for (const link of linksBy('person', 'email')) await eraseLink(walk, link, valuesFor(person, link));
  const stored = async () => (await findTombstone(mongo, id)) ?? tombstone;
  if (walk.waiting.size > 0) return { kind: 'waiting', tombstone: await stored(), rows: walk.waiting };
  await finish(mongo, tombstone, act);
  return { kind: 'erased', tombstone: await stored(), already: false };
}

function valuesFor({ id, emailDigest }: Person, { by }: CollectionLink): string[] {
  if (by === 'person') return [id];
  return emailDigest === null ? [] : [emailDigest];
}

/** Refuses further logins before the sessions are deleted. A login that is in flight writes the same row, so one of the two fails. */
async function closeAccount({ mongo, keys }: Walk): Promise<void> {
  const status: AccountRow['status'] = 'DELETED';
  await accounts(mongo).updateOne({ _id: keys.id, status: { $ne: status } }, { $set: { status, stamp: newStamp() } });
}

/** Closes the tombstone and writes the audit line, both or neither. The pseudonym is forgotten, so that it leads back to no id. */
async function finish(mongo: Mongo, { _id }: Pick<ErasedPerson, '_id'>, act: OperatorAct): Promise<void> {
  await actAsOperator(mongo, act, async (session) => {
    const closed = await erasedPersons(mongo).findOneAndUpdate(
      { _id, state: 'ERASING' },
      { $set: { state: 'ERASED', pseudonym: null, erasedAt: new Date(act.now) } },
      { session, returnDocument: 'after' },
    );
    if (closed === null) return { result: undefined, line: null };
    return { result: undefined, line: { action: 'account.person-erase', subject: _id, detail: sumsOf(closed) } };
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
