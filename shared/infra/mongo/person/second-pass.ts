import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { type ErasedPerson, erasedPersons } from '#infra/mongo/erased-persons.ts';
import { guardedUpdate, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import type { CollectionName } from '#infra/mongo/schema/personal-fields.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { erasePerson } from './erase.ts';
import { endAttempts, openAttempts } from './ungraded.ts';

/** An erasure whose second pass has not ended. */
export type PendingErasure = Pick<ErasedPerson, '_id' | 'operator' | 'reason'> & Required<Pick<ErasedPerson, 'again'>>;

/**
 * Result of a second pass. `early`: it is not due by MongoDB's clock, or another worker has it. `waiting`: these rows are still needed by
 * other work; a later pass goes on with them. `erased`: complete; the tombstone holds the id no longer. `found` is true if rows were erased.
 */
export type SecondPass =
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
