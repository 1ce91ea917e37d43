import type { Notification } from '#shared/generated/notification.ts';
import { countFaults, type Inbox, readInbox } from './inbox.ts';
import { mathsExam } from './paper.ts';
import type { DemoDeps } from './sitting.ts';

/**
 * The owner was told once, in the words that are agreed, and of nobody else's attempt; the notice is unread and the counts are those of
 * the rows. `attempts`: all of this run, for earlier demos told the same people of theirs. True where the notice is there.
 */
export async function verifyInbox(deps: DemoDeps, inbox: Inbox, attempts: ReadonlySet<string>): Promise<boolean> {
  const complain = (fault: string) => deps.complain(`${inbox.owner.id}: ${fault}`);
  const contents = await readInbox(deps.gateway, inbox);
  countFaults(contents).forEach(complain);
  if (contents.rows.some((row) => row.userId !== inbox.owner.id)) complain("the inbox shows somebody else's rows");
  const told = contents.rows.filter((row) => row.entityId !== null && attempts.has(row.entityId));
  const own = told.filter((row) => row.entityId === inbox.attemptId);
  if (own.length !== told.length) complain("was told of somebody else's result");
  if (own.length !== 1) complain(`was told ${own.length} times, and should be once`);
  for (const row of own) noticeFaults(row, inbox, deps.examId).forEach(complain);
  return own.length > 0;
}

function noticeFaults(row: Notification, { owner, attemptId }: Inbox, examId: string): string[] {
  const isStudent = owner.role === 'STUDENT';
  const type = isStudent ? 'GRADE_RELEASED' : 'GRADE_RELEASED_PARENT';
  const source = isStudent ? 'grade_released' : 'grade_released_parent';
  const { title, organizationId } = mathsExam(examId);
  const wanted: Partial<Notification> = {
    type,
    preferenceType: type,
    entity: 'ExamAttempt',
    organizationId: organizationId ?? null,
    title: 'Kết quả bài thi đã được công bố',
    content: `Bài thi ${isStudent ? '' : 'của con bạn '}"${title}" đã có kết quả.`,
    sourceEventRef: `attempt-service:${attemptId}:notification:${source}`,
    isRead: false,
    readAt: null,
  };
  return Object.entries(wanted)
    .filter(([field, value]) => row[field as keyof Notification] !== value)
    .map(([field, value]) => `the notice's ${field} is ${row[field as keyof Notification]}, and should be ${value}`);
}
