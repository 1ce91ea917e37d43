import { randomBytes } from 'node:crypto';
import type { ClientSession, Collection } from 'mongodb';
import { MINUTE } from '#shared/kernel/time.ts';
import { readIn } from './causal-read.ts';
import { clusterHash } from './cluster-key.ts';
import { type Mongo, QUERY_LIMIT_MS } from './connect.ts';
import { isDuplicateKey } from './faults.ts';
import type { Stamped } from './guarded-update.ts';
import type { OperatorAct } from './operator-audit.ts';

/** Rows of one collection that an erasure has changed. */
export interface ErasedCounts {
  deleted?: number;
  pseudonymised?: number;
}

/**
 * The tombstone of a person, which is also the journal and the receipt of the erasure. It exists before the first row is erased. From
 * then on, front doors store nothing under the id. `_id` is a digest, so the row does not name the person once `again` is gone.
 */
export interface ErasedPerson extends Stamped {
  _id: string;
  state: 'ERASING' | 'ERASED';
  /** Replaces the id in rows that stay. null once ERASED: nothing links those rows to the id any longer. */
  pseudonym: string | null;
  operator: string;
  reason: string;
  begunAt: Date;
  erasedAt: Date | null;
  /** By collection. Each count is stored in the commit of the rows that it counts. */
  counts: Record<string, ErasedCounts>;
  /** The id of the person until the second pass has ended, and when the next one is due. Absent afterwards. */
  again?: { id: string; at: Date };
}

/**
 * Time from the tombstone to the second pass, which erases what was stored by a view from before the tombstone. Nothing is stored so for
 * longer:
 *
 * - An access token of the erased person is valid for 15 minutes, and a request ends its statements within the 5 minutes after them. The
 *   longest, a large fan-out, is published within 90 seconds (STAGE_WITHIN_MS) or never.
 * - A worker writes under its lease, of at most 10 minutes. MongoDB ends an open transaction after a minute.
 * - Calls of a model take longer. The erasure waits for the lease of a preview in flight and for the end of a job.
 */
export const SECOND_PASS_MS = 20 * MINUTE;

export const ERASED_PERSONS = 'erased_persons';

export const erasedPersons = (mongo: Mongo): Collection<ErasedPerson> => mongo.db.collection(ERASED_PERSONS);

/** Returns the `_id` of a person's tombstone, under which the audit names the person too: a keyed hash of the id. */
export async function tombstoneId(mongo: Mongo, personId: string): Promise<string> {
  const keyed = await clusterHash(mongo);
  return keyed('person', personId);
}

/** Returns a new pseudonym: 96 random bits. */
export function newPseudonym(): string {
  return `erased-${randomBytes(12).toString('base64url')}`;
}

/** Ids in one query, whose digests are computed without a pause. */
const AT_ONCE = 500;

/** Returns those of these ids whose persons are erased, or are being erased. */
export async function erasedAmong(
  mongo: Mongo,
  ids: readonly (string | null | undefined)[],
  session?: ClientSession,
): Promise<Set<string>> {
  const named = [...new Set(ids)].filter((id) => id != null);
  const erased = new Set<string>();
  for (let from = 0; from < named.length; from += AT_ONCE) {
    const byDigest = new Map<string, string>();
    for (const id of named.slice(from, from + AT_ONCE)) byDigest.set(await tombstoneId(mongo, id), id);
    const found = await erasedPersons(mongo)
      .find(
        { _id: { $in: [...byDigest.keys()] } },
        { projection: { _id: 1 }, maxTimeMS: QUERY_LIMIT_MS, ...readIn(session) },
      )
      .toArray();
    for (const { _id } of found) erased.add(byDigest.get(_id) ?? '');
  }
  return erased;
}

/** Returns true if the person is erased or is being erased. */
export async function isErased(mongo: Mongo, personId: string): Promise<boolean> {
  return (await erasedAmong(mongo, [personId])).has(personId);
}

export async function findTombstone(mongo: Mongo, personId: string): Promise<ErasedPerson | null> {
  return erasedPersons(mongo).findOne({ _id: await tombstoneId(mongo, personId) }, { maxTimeMS: QUERY_LIMIT_MS });
}

/** Returns the plan of the second pass of an erasure that begins now. */
export function secondPass(id: string, { now }: Pick<OperatorAct, 'now'>): Required<ErasedPerson>['again'] {
  return { id, at: new Date(now + SECOND_PASS_MS) };
}

/** Returns the person's tombstone, and inserts it if it does not exist. An erasure that was interrupted goes on under its first pseudonym. */
export async function openTombstone(mongo: Mongo, personId: string, act: OperatorAct): Promise<ErasedPerson> {
  const earlier = await findTombstone(mongo, personId);
  if (earlier !== null) return earlier;
  const row: ErasedPerson = {
    _id: await tombstoneId(mongo, personId),
    state: 'ERASING',
    pseudonym: newPseudonym(),
    operator: act.operator,
    reason: act.reason,
    begunAt: new Date(act.now),
    erasedAt: null,
    counts: {},
    again: secondPass(personId, act),
  };
  try {
    await erasedPersons(mongo).insertOne(row, { maxTimeMS: QUERY_LIMIT_MS });
    return row;
  } catch (error) {
    if (!isDuplicateKey(error)) throw error;
  }
  const found = await findTombstone(mongo, personId);
  if (found === null) throw new Error('the tombstone of a person is gone');
  return found;
}

/** Adds to the receipt, in the transaction that erases the counted rows. */
export async function countErased(
  mongo: Mongo,
  { _id }: Pick<ErasedPerson, '_id'>,
  changed: readonly { collection: string; how: keyof ErasedCounts; rows: number }[],
  session: ClientSession,
): Promise<void> {
  const added: Record<string, number> = {};
  for (const { collection, how, rows } of changed) {
    const field = `counts.${collection}.${how}`;
    if (rows > 0) added[field] = (added[field] ?? 0) + rows;
  }
  if (Object.keys(added).length > 0) await erasedPersons(mongo).updateOne({ _id }, { $inc: added }, { session });
}
