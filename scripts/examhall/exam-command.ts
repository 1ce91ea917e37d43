import { auditExamAttempts } from '#infra/mongo/operations/audited-reads.ts';
import { readExam } from '#infra/mongo/operations/exam.ts';
import { readExamAttempts } from '#infra/mongo/operations/exam-attempts.ts';
import { storesRings } from '#infra/redis/ask-once.ts';
import type { Exam, ExamAttempt } from '#shared/generated/operations.ts';
import { ATTEMPT_STATUSES, PAGE_ATTEMPTS, readWalkCursor } from '#shared/operations/exam-walk.ts';
import { span } from '#shared/operations/reasons.ts';
import { EXIT } from './exit-codes.ts';
import { type CliCommands, counted, type Flags, type Operator, readingActFor } from './operator.ts';
import { CURSOR_WANTED, LIMIT_WANTED, limitOf, nextPage, print, refuse, table } from './output.ts';

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
  if (limit === null) return refuse(operator, LIMIT_WANTED);
  const status = ATTEMPT_STATUSES.find((known) => known === flags.status) ?? null;
  const student = flags.student ?? null;
  const walk = { examId, status, student };
  const after = flags.cursor === undefined ? null : readWalkCursor(walk, flags.cursor);
  if (flags.cursor !== undefined && after === null) return refuse(operator, CURSOR_WANTED);
  const { mongo, redisUrl, fail } = operator;
  const act = readingActFor(operator, flags);
  const redis = (await storesRings(redisUrl)) ? 'up' : 'down';
  const facts = { now: act.now, redis } as const;
  const found = await readExam(mongo, examId, act.now);
  const list = found && (await readExamAttempts(mongo, { ...walk, after, limit }, facts));
  if (found === null || list === null) {
    fail(`nothing of the exam ${examId} is stored`);
    return EXIT.failed;
  }
  const { attempts, nextCursor } = list;
  await auditExamAttempts(mongo, act, walk, attempts.length);
  print(operator, flags, { exam: found, attempts, nextCursor }, () =>
    [...summaryOf(found), ...(attempts.length === 0 ? [] : ['', tableOf(attempts)]), ...nextPage(list)].join('\n'),
  );
  return EXIT.done;
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

function tableOf(rows: readonly ExamAttempt[]): string {
  return table(
    ['attempt', 'student', 'no', 'status', 'deadline', 'last save', 'late by', 'answered', 'results', 'grading'],
    rows.map((row) => [
      row.id,
      row.studentId,
      `${row.attemptNumber}`,
      row.status,
      row.deadlineAt ?? '-',
      row.lastSavedAt ?? '-',
      row.lateSeconds === null ? '-' : span(row.lateSeconds * 1_000),
      `${row.answered}/${row.questions}`,
      row.results,
      row.reason === null ? row.grading : `${row.grading}: ${row.reason.text}`,
    ]),
  );
}
