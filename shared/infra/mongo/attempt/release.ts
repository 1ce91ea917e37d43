import type { ClientSession } from 'mongodb';
import { inCausalOrder, readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { newStamp, Stale } from '#infra/mongo/guarded-update.ts';
import { type CommandOf, NOTICES, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { findLive, postCommandIn } from '#infra/mongo/mailbox/mailbox.ts';
import { shareReads } from '#infra/mongo/shared-reads.ts';
import { inTransactionOf } from '#infra/mongo/transaction.ts';
import { applyWrites, inserts, type Writes } from '#infra/mongo/writes.ts';
import type { Attempt, AttemptKey } from '#shared/attempt/attempt.ts';
import { noticeOrder, releaseKey, releaseOrder } from '#shared/attempt/commands.ts';
import { type GradeNotice, isEarly } from '#shared/attempt/notices.ts';
import type { Release, StoredRelease } from '#shared/attempt/release.ts';
import { attempts, releases, whereKey, whereKeys } from './collections.ts';

/** A release is stored together with its command, set on each attempt that it binds, and announced by notices. */

/** Numbers that a release may lose to other releases of its exam. After that its duplicate key error is thrown. */
const MAX_PASSES = 20;

/**
 * Stores the release with its command, or returns the command that its source event already has.
 *
 * The release takes the next number of its exam in the same transaction. The unique `_id` of its row lets one release have that
 * number. So number n + 1 exists only if n does. A start that reads n as the newest was decided before every release above n was
 * stored. That order, and no clock, decides which attempts the release binds.
 */
export function storeRelease(
  mongo: Mongo,
  release: Release,
  terms: ReleaseTerms,
): Promise<{ command: CommandOf<'resultsrelease'>; created: boolean }> {
  return inCausalOrder(mongo, (session) => storeOnce(mongo, session, release, terms));
}

interface ReleaseTerms {
  maxAttempts: number;
  now: number;
  runAt?: number;
  budgetMs: number;
}

async function storeOnce(
  mongo: Mongo,
  session: ClientSession,
  release: Release,
  { budgetMs, ...terms }: ReleaseTerms,
): Promise<{ command: CommandOf<'resultsrelease'>; created: boolean }> {
  for (let pass = 1; ; pass++) {
    try {
      const command = await inTransactionOf(mongo, session, budgetMs, async () => {
        const stored = { ...release, number: (await newestRelease(mongo, release.examId, session)) + 1 };
        const posted = newCommand({ ...releaseOrder(stored), ...terms });
        await postCommandIn(mongo, session, posted);
        await releases(mongo).insertOne({ _id: rowId(stored), ...stored }, { session });
        return posted;
      });
      return { command, created: true };
    } catch (error) {
      if (!isDuplicateKey(error) || pass === MAX_PASSES) throw error;
    }
    // One of two keys was taken: the key of the source event, or the number. In the session, the read waits for a command that took the key.
    const command = await findLive(mongo, 'resultsrelease', releaseKey(release.sourceEventId), session);
    if (command !== null) return { command, created: false };
  }
}

/** JSON keeps the parts apart: two different pairs of exam and number never have the same id. */
function rowId({ examId, number }: StoredRelease): string {
  return JSON.stringify([examId, number]);
}

/** Returns the number of the exam's newest release, or 0 without a release. */
export async function newestRelease(mongo: Mongo, examId: string, session?: ClientSession): Promise<number> {
  const newest = await releases(mongo).findOne(
    { examId },
    {
      projection: { number: 1 },
      sort: { number: -1 },
      ...(session === undefined ? { maxTimeMS: QUERY_LIMIT_MS } : { session }),
    },
  );
  return newest?.number ?? 0;
}

/** The fields of an attempt that decide which release binds it. */
type Bindable = Pick<Attempt, 'examId' | 'organizationId' | 'studentId' | 'releasesSeen'>;

/** A release as an attempt takes it: without its students, who may be ten thousand. */
type FoundRelease = Omit<StoredRelease, 'studentIds'>;

/** Returns the first release that covers this attempt and was stored after its start had been decided, or null. */
export async function findBindingRelease(
  mongo: Mongo,
  { studentId, ...attempt }: Bindable,
  session?: ClientSession,
): Promise<FoundRelease | null> {
  return releases(mongo).findOne<FoundRelease>(
    { ...whereNewer(attempt), studentIds: { $in: [null, studentId] } } as object,
    { ...readIn(session), projection: { studentIds: 0 }, sort: { number: 1 }, maxTimeMS: QUERY_LIMIT_MS },
  );
}

function whereNewer({ examId, organizationId, releasesSeen }: Omit<Bindable, 'studentId'>) {
  return { examId, number: { $gt: releasesSeen }, organizationId: { $in: [null, organizationId] } };
}

/** Returns the release that binds an attempt, as `findBindingRelease` does. Attempts of one exam share a read. */
export type BindingRelease = (attempt: Bindable, session?: ClientSession) => Promise<FoundRelease | null>;

/** Opens the reads of a process. */
export function openBindingReleases(mongo: Mongo): BindingRelease {
  const first = shareReads<Bindable, StoredRelease | null>(
    ({ examId, organizationId, releasesSeen }) => JSON.stringify([examId, organizationId, releasesSeen]),
    (attempt, session) =>
      releases(mongo).findOne(whereNewer(attempt), {
        ...readIn(session),
        // One student tells that there are some.
        projection: { studentIds: { $slice: 1 } },
        sort: { number: 1 },
        maxTimeMS: QUERY_LIMIT_MS,
      }),
  );
  return async (attempt, session) => {
    const found = await first(attempt, session);
    // A release to some is rare. Then the read depends on the student, and no other attempt shares it.
    return found?.studentIds === undefined ? found : findBindingRelease(mongo, attempt, session);
  };
}

/** Returns the releases of the exam up to this one, in the order of their numbers. */
export async function releasesUpTo(
  mongo: Mongo,
  release: Pick<StoredRelease, 'examId' | 'number'>,
  session: ClientSession,
): Promise<StoredRelease[]> {
  const { examId, number } = release;
  // The command lacks the students of its release. Both are one commit, which a read in the session of the claim waits for.
  return releases(mongo)
    .find({ examId, number: { $lte: number } }, { ...readIn(session), sort: { number: 1 }, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
}

/** Fields of an attempt that a release needs. */
export type UnreleasedAttempt = Pick<
  Attempt,
  | '_id'
  | 'examId'
  | 'organizationId'
  | 'studentId'
  | 'status'
  | 'exam'
  | 'releasesSeen'
  | 'erasedAt'
  | 'round'
  | 'voidedAt'
  | 'stamp'
>;

/** Returns the next attempts of the exam without a release time, by id after `afterId`, at most `limit`. */
export async function unreleasedAttempts(
  mongo: Mongo,
  examId: string,
  { afterId, limit, session }: { afterId: string; limit: number; session: ClientSession },
): Promise<UnreleasedAttempt[]> {
  const found = await attempts(mongo)
    .find(
      { examId, 'exam.resultsReleasedAt': null, _id: { $gt: afterId } },
      {
        projection: {
          examId: 1,
          organizationId: 1,
          studentId: 1,
          status: 1,
          exam: 1,
          releasesSeen: 1,
          erasedAt: 1,
          round: 1,
          voidedAt: 1,
          stamp: 1,
        },
        ...readIn(session),
        sort: { _id: 1 },
        limit,
        maxTimeMS: QUERY_LIMIT_MS,
      },
    )
    .toArray();
  return found as UnreleasedAttempt[];
}

/**
 * Sets the release time on these attempts, in the caller's transaction. The decision to queue notices depends on the attempts as
 * they were read. Throws Stale if one of them has changed since, for example because it was graded.
 */
export async function setReleased(
  mongo: Mongo,
  read: readonly UnreleasedAttempt[],
  release: Release,
  session: ClientSession,
): Promise<void> {
  if (read.length === 0) return;
  // One statement for all. Stamps are random and differ among unreleased attempts, so an attempt that was written since the read
  // has none of the listed stamps.
  const written = await attempts(mongo).updateMany(
    { ...whereKeys(read), stamp: { $in: read.map((attempt) => attempt.stamp) } },
    { $set: releaseFields(release) },
    { session },
  );
  if (written.matchedCount !== read.length) throw new Stale('attempts of a release');
}

/**
 * Sets the release time on an attempt that has just been started and has no notices yet. Changes nothing if another release or
 * the grading came first.
 */
export async function releaseOne(mongo: Mongo, attempt: AttemptKey, release: Release): Promise<void> {
  await attempts(mongo).updateOne(
    { ...whereKey(attempt), status: 'IN_PROGRESS', 'exam.resultsReleasedAt': null },
    { $set: releaseFields(release) },
    { maxTimeMS: QUERY_LIMIT_MS },
  );
}

function releaseFields({ releasedAt, sourceEventId }: Release) {
  return {
    'exam.resultsReleasedAt': releasedAt,
    releaseEventId: sourceEventId,
    'tally.released': true,
    stamp: newStamp(),
  };
}

/**
 * Returns the insert of the notices, for the transaction of their cause. A notice whose release time is in the future is due at that time.
 * If a notice exists already, its duplicate key error aborts the transaction: two causes never both announce one attempt.
 */
export function noticeWrites(notices: readonly GradeNotice[], options: { maxAttempts: number; now: number }): Writes {
  const at = new Date(options.now);
  const rows = notices.map((notice) => {
    const runAt = isEarly(notice, at) ? notice.notBefore?.getTime() : undefined;
    const due = runAt === undefined ? {} : { runAt };
    const id = notice.sourceEventId;
    return newCommand({ ...noticeOrder(notice), ...options, ...due, id, posted: notices.length });
  });
  return inserts(NOTICES, rows);
}

/** Queues the notices in the caller's transaction. */
export async function queueNotices(
  mongo: Mongo,
  session: ClientSession,
  notices: readonly GradeNotice[],
  options: { maxAttempts: number; now: number },
): Promise<void> {
  await applyWrites(mongo, [noticeWrites(notices, options)], session);
}
