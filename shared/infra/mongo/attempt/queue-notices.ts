import type { ClientSession, OptionalUnlessRequiredId } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf, newCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';

/** An outbox row: the notice, and the command that delivers it. Its `_id` is the notice's stable sourceEventId. */
export type NoticeCommand = Command<GradeNotice>;

/**
 * Queues the notices in the transaction of their cause. A row that is there already is a duplicate key error, which
 * aborts that transaction: two causes never both announce one attempt.
 */
export async function queueNotices(
  mongo: Mongo,
  session: ClientSession,
  notices: readonly GradeNotice[],
  options: { maxAttempts: number; now: number },
): Promise<void> {
  if (notices.length === 0) return;
  const rows = notices.map((notice) => noticeCommand(notice, options));
  await mailboxOf(mongo, 'gradenotices:student').insertMany(rows as OptionalUnlessRequiredId<Command>[], { session });
}

function noticeCommand(notice: GradeNotice, { maxAttempts, now }: { maxAttempts: number; now: number }): NoticeCommand {
  const queue: Queue = notice.recipient === 'STUDENT' ? 'gradenotices:student' : 'gradenotices:parent';
  const command = newCommand({
    queue,
    key: notice.sourceEventId,
    subject: notice.attemptId,
    body: notice,
    maxAttempts,
    now,
  });
  return { ...command, _id: notice.sourceEventId };
}
