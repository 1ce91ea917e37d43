import type { ClientSession } from 'mongodb';
import { type RegradeLine, type RegradeRow, regradeLines, regrades } from '#infra/mongo/attempt/collections.ts';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { literal } from '#infra/mongo/guarded-update.ts';
import type { RegradeState } from '#shared/attempt/correction.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';

/** Names one regrade: its id and its shard key. */
export type RegradeKey = Pick<RegradeRow, '_id' | 'examId'>;

/** Returns the regrade, or null. */
export function findRegrade(
  mongo: Mongo,
  { _id, examId }: RegradeKey,
  session?: ClientSession,
): Promise<RegradeRow | null> {
  return regrades(mongo).findOne({ _id, examId }, { ...readIn(session), maxTimeMS: QUERY_LIMIT_MS });
}

/** Returns the regrades of an exam, newest first, after the one of the id `before`: at most `limit`, and one more if there is any. */
export function listRegrades(
  mongo: Mongo,
  examId: string,
  { after, limit }: { after: RegradeRow | null; limit: number },
): Promise<RegradeRow[]> {
  const { createdAt, _id } = after ?? {};
  const older =
    createdAt === undefined ? {} : { $or: [{ createdAt: { $lt: createdAt } }, { createdAt, _id: { $lt: _id ?? '' } }] };
  return regrades(mongo)
    .find({ examId, ...older }, { sort: { createdAt: -1, _id: -1 }, limit: limit + 1, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
}

/** Returns the filter of the lines that a reader may see. */
function seenBy({ id, role }: Examiner): { examiners?: string } {
  return role === 'ADMIN' ? {} : { examiners: id };
}

/** Returns lines of a regrade, ascending by attempt, after the attempt `after`: at most `limit`, and one more if there is any. */
export function linesOf(
  mongo: Mongo,
  regradeId: string,
  reader: Examiner,
  { after, limit }: { after: string | null; limit: number },
): Promise<RegradeLine[]> {
  return regradeLines(mongo)
    .find(
      { regradeId, ...(after === null ? {} : { attemptId: { $gt: after } }), ...seenBy(reader) },
      { sort: { attemptId: 1 }, limit: limit + 1, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
}

/** Yields all lines of a regrade, ascending by attempt. There may be a hundred thousand. */
export async function* allLines(mongo: Mongo, regradeId: string, reader: Examiner): AsyncGenerator<RegradeLine> {
  const lines = regradeLines(mongo).find({ regradeId, ...seenBy(reader) }, { sort: { attemptId: 1 }, batchSize: 500 });
  for await (const line of lines) yield line;
}

/** Stores a step of a preview in the caller's transaction: its lines and its counts. */
export async function storeStep(
  mongo: Mongo,
  { _id, examId }: RegradeKey,
  { lines, counts }: { lines: readonly RegradeLine[]; counts: RegradeCounts },
  session: ClientSession,
): Promise<void> {
  if (lines.length > 0) await regradeLines(mongo).insertMany([...lines], { ordered: false, session });
  await regrades(mongo).updateOne({ _id, examId }, { $inc: { ...counts } }, { session });
}

export type RegradeCounts = Pick<RegradeRow, 'attempts' | 'changed' | 'up' | 'down'>;

/** Moves a regrade from one state to the next, in the caller's transaction. Returns false if it is in another state. */
export async function moveRegrade(
  mongo: Mongo,
  { _id, examId }: RegradeKey,
  { from, to }: { from: RegradeState; to: RegradeState },
  session: ClientSession,
): Promise<boolean> {
  const moved = await regrades(mongo).updateOne({ _id, examId, state: from }, { $set: { state: to } }, { session });
  return moved.matchedCount === 1;
}

/**
 * Lets a preview bind the grades of its exam, in the caller's transaction: it takes the next number, which the unique index gives to one
 * regrade. Returns false if it is no preview.
 *
 * The time is that of MongoDB. Attempts that started before it are bound, if `by`, who applies it, examines them too.
 */
export async function beginApply(
  mongo: Mongo,
  { _id, examId }: RegradeKey,
  by: Examiner,
  session: ClientSession,
): Promise<boolean> {
  const newest = await regrades(mongo).findOne(
    { examId, isApplied: true },
    { projection: { number: 1 }, sort: { number: -1 }, hint: 'applied', session },
  );
  const begun = await regrades(mongo).updateOne(
    { _id, examId, state: 'PREVIEW' },
    [
      {
        $set: {
          state: 'APPLYING',
          isApplied: true,
          number: (newest?.number ?? 0) + 1,
          appliedAt: '$$NOW',
          appliedBy: literal(by),
          expiresAt: null,
        },
      },
    ],
    { session },
  );
  return begun.matchedCount === 1;
}
