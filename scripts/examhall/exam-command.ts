import { auditExamAttempts } from '#infra/mongo/operations/audited-reads.ts';
import { readExam } from '#infra/mongo/operations/exam.ts';
import { readExamAttempts } from '#infra/mongo/operations/exam-attempts.ts';
import { storesRings } from '#infra/redis/ask-once.ts';
import type { Exam, ExamAttempt } from '#shared/generated/operations.ts';
import { ATTEMPT_STATUSES, PAGE_ATTEMPTS, readWalkCursor } from '#shared/operations/exam-walk.ts';
import { span } from '#shared/operations/reasons.ts';
import { Refused } from './exit-codes.ts';
import type { CliCommands, Operator } from './operator.ts';
import { atCursor, type Flags, limitOf, readingActFor } from './options.ts';
import { counted, nextPage, print, table } from './output.ts';

/** The command that watches one exam. */
export const EXAM_COMMANDS: CliCommands = {
  exam: {
    summary: 'print the counts of an exam, its releases and its attempts',
    details: `Attempts are in the order of their starts. The read is audited, once an hour for an exam, or for a student with --student.
Neither answers nor scores are printed.`,
    args: { '<id>': 'id of the exam' },
    options: ['attempt-status', 'student', 'limit', 'cursor', 'reason', 'operator', 'json', 'watch'],
    examples: [
      'exam toan-12',
      'exam toan-12 --status IN_PROGRESS --watch 5',
      'exam toan-12 --student student-1',
      'exam toan-12 --json --limit 1000',
    ],
    run: exam,
  },
};

async function exam(operator: Operator, [examId = '']: string[], flags: Flags): Promise<number> {
  const limit = limitOf(flags, PAGE_ATTEMPTS);
  const status = ATTEMPT_STATUSES.find((known) => known === flags.status) ?? null;
  const walk = { examId, status, student: flags.student ?? null };
  const after = flags.cursor === undefined ? null : atCursor(readWalkCursor(walk, flags.cursor));
  const { mongo, redisUrl } = operator;
  const act = readingActFor(operator, flags);
  const redis = (await storesRings(redisUrl)) ? 'up' : 'down';
  const found = await readExam(mongo, examId, act.now);
  const list = found && (await readExamAttempts(mongo, { ...walk, after, limit }, { now: act.now, redis }));
  if (found === null || list === null) throw new Refused(`nothing of the exam ${examId} is stored`);
  const { attempts, nextCursor } = list;
  await auditExamAttempts(mongo, act, walk, attempts.length);
  return print(operator, flags, { exam: found, attempts, nextCursor }, () => [
    ...summaryOf(found),
    ...(attempts.length === 0 ? [] : ['', ...tableOf(attempts)]),
    ...nextPage(list),
  ]);
}

function summaryOf({ examId, title, attempts, late, essays, notices, results }: Exam): string[] {
  const { IN_PROGRESS, SUBMITTED, GRADED } = attempts.byStatus;
  const essaysOf = `${counted(essays.answers, 'answer')} of ${counted(essays.attempts, 'attempt')}`;
  return [
    `exam ${examId}${title === null ? '' : ` "${title}"`}: ${counted(attempts.total, 'attempt')}`,
    `  ${IN_PROGRESS} in progress, ${SUBMITTED} submitted, ${GRADED} graded`,
    `  late: ${late.inProgress} in progress, ${late.submitted} submitted`,
    `  essays: ${essaysOf} ${essays.answers === 1 ? 'waits' : 'wait'} for a grade`,
    `  notices: ${notices.waiting} waiting, ${notices.dead} dead`,
    `  results: ${counted(results.released, 'attempt')} released, ${counted(results.releases.length, 'release')}`,
    ...results.releases.map(
      ({ sourceEventId, releasedAt, state, command, updatedAttempts, queuedNotifications }) =>
        `    ${sourceEventId}: ${state} ${releasedAt}, command ${command ?? '-'}, ${counted(updatedAttempts, 'attempt')}, ${counted(queuedNotifications, 'notice')}`,
    ),
  ];
}

function tableOf(rows: readonly ExamAttempt[]): string[] {
  return table(rows, {
    attempt: ({ id }) => id,
    student: ({ studentId }) => studentId,
    no: ({ attemptNumber }) => attemptNumber,
    status: ({ status }) => status,
    deadline: ({ deadlineAt }) => deadlineAt,
    'last save': ({ lastSavedAt }) => lastSavedAt,
    'late by': ({ lateSeconds }) => (lateSeconds === null ? null : span(lateSeconds * 1_000)),
    answered: ({ answered, questions }) => `${answered}/${questions}`,
    results: ({ results }) => results,
    grading: ({ grading, reason }) => (reason === null ? grading : `${grading}: ${reason.text}`),
  });
}
