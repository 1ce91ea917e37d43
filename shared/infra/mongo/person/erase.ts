import { type AccountRow, accounts } from '#infra/mongo/auth/collections.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import {
  countErased,
  type ErasedPerson,
  erasedPersons,
  findTombstone,
  newPseudonym,
  openTombstone,
  secondPass,
} from '#infra/mongo/erased-persons.ts';
import { guardedUpdate, msOf, NOW_MS, newStamp, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { actAsOperator, type OperatorAct } from '#infra/mongo/operator-audit.ts';
import { type CollectionLink, type CollectionName, linksBy } from '#infra/mongo/schema/personal-fields.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { countRows, findPerson, type Person } from './find.ts';
import { endAttempts, openAttempts } from './ungraded.ts';
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
function sumsOf({ counts }: Pick<ErasedPerson, 'counts'>): { deleted: number; pseudonymised: number } {
  const sums = { deleted: 0, pseudonymised: 0 };
  for (const { deleted = 0, pseudonymised = 0 } of Object.values(counts)) {
    sums.deleted += deleted;
    sums.pseudonymised += pseudonymised;
  }
  return sums;
}

/** An erasure whose second pass has not ended. */
export type PendingErasure = Pick<ErasedPerson, '_id' | 'operator' | 'reason'> & Required<Pick<ErasedPerson, 'again'>>;

/**
 * Result of a second pass. `early`: it is not due by MongoDB's clock, or another worker has it. `waiting`: these rows are still needed by
 * other work; a later pass goes on with them. `erased`: complete; the tombstone holds the id no longer. `found` is true if rows were erased.
 */
type SecondPass =
  | { kind: 'early' }
  | { kind: 'waiting'; rows: ReadonlyMap<CollectionName, number> }
  | { kind: 'erased'; found: boolean };

/** Pause after the begin of a pass: a worker was killed in it, it failed, or rows had to wait. */
export const NEXT_PASS_MS = 5 * MINUTE;

/** Returns the erasures whose second pass has not ended, the longest due first. Their number is that of the last minutes' erasures. */
export function pendingErasures(mongo: Mongo, limit: number): Promise<PendingErasure[]> {
  return erasedPersons(mongo)
    .find<PendingErasure>(
      { 'again.at': { $gt: new Date(0) } },
      { projection: { again: 1, operator: 1, reason: 1 }, sort: { 'again.at': 1 }, limit, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
}

/**
 * Runs an erasure once more if its second pass is due, in the name of its operator and for the same reason. It finds what a process stored
 * by a view from before the tombstone, if that process was killed before it could read the tombstone. The audit gets a line if rows were
 * erased.
 *
 * An open attempt can only be the work of such a process. It is submitted as at the end of its time, and a later pass erases it.
 */
export async function eraseAgain(
  mongo: Mongo,
  pending: PendingErasure,
  { now, maxAttempts, committed }: Pick<OperatorAct, 'now' | 'committed'> & { maxAttempts: number },
): Promise<SecondPass> {
  if (!(await takePass(mongo, pending))) return { kind: 'early' };
  const { id } = pending.again;
  const { operator, reason } = pending;
  await endAttempts(mongo, await openAttempts(mongo, id), { now, maxAttempts });
  const done = await erasePerson(mongo, id, { operator, reason, now, ...(committed && { committed }) });
  if (done.kind === 'waiting') return { kind: 'waiting', rows: done.rows };
  // Another run may have opened the erasure again. A later pass then ends it.
  await erasedPersons(mongo).updateOne({ _id: pending._id, state: 'ERASED' }, [{ $unset: ['again'] }]);
  return { kind: 'erased', found: !done.already };
}

/**
 * Takes a pass that is due by MongoDB's clock, and postpones the next one. Of several workers one gets it. If that one is killed, the pass
 * is due again after the pause.
 */
async function takePass(mongo: Mongo, { _id, again }: PendingErasure): Promise<boolean> {
  const update = guardedUpdate([{ $lte: [msOf('$again.at'), NOW_MS] }], { 'again.at': nowPlus(NEXT_PASS_MS) });
  const after = await erasedPersons(mongo).findOneAndUpdate({ _id, 'again.at': again.at }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  return wasAccepted(update, after);
}
