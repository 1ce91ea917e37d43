import { attempts } from '#infra/mongo/attempt/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { until } from '#testing/until.ts';

/** Rows of the outbox about one exam, by id. */
export function noticeRows(mongo: Mongo, examId: string): Promise<Command<GradeNotice>[]> {
  return mongo.db
    .collection<Command<GradeNotice>>(NOTICES)
    .find({ 'body.examId': examId }, { sort: { _id: 1 } })
    .toArray() as Promise<Command<GradeNotice>[]>;
}

/** The two rows that announce each of these attempts once, by id. */
export function announcements(attemptIds: readonly string[]): string[] {
  return attemptIds
    .flatMap((id) => [`${id}:notification:grade_released`, `${id}:notification:grade_released_parent`])
    .sort();
}

/** Waits until `count` attempts of the exam are graded and released; each was announced to the student and to the parents once. */
export async function announcedOnce(
  t: { strictSame(found: unknown, wanted: unknown): unknown },
  mongo: Mongo,
  examId: string,
  count: number,
): Promise<void> {
  const all = await until('all graded and released', async () => {
    const found = await attempts(mongo).find({ examId }).toArray();
    const done = found.filter(({ status, exam }) => status === 'GRADED' && exam.resultsReleasedAt !== null);
    return done.length === count ? done : null;
  });
  const rows = await noticeRows(mongo, examId);
  t.strictSame(
    rows.map(({ _id }) => _id),
    announcements(all.map(({ _id }) => _id)),
  );
}
