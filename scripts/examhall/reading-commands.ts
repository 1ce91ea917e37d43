import { auditExamAttempts, auditTrace } from '#infra/mongo/operations/audit.ts';
import { readExam } from '#infra/mongo/operations/exam.ts';
import { readExamAttempts } from '#infra/mongo/operations/exam-attempts.ts';
import { type Asked, readAsked, readTrace, type Trace } from '#infra/mongo/operations/trace.ts';
import { storesRings } from '#infra/redis/connection.ts';
import type { Exam, ExamAttempt } from '#shared/generated/operations.ts';
import { ATTEMPT_STATUSES, PAGE_ATTEMPTS, readWalkCursor } from '#shared/operations/exam-walk.ts';
import { span } from '#shared/operations/reasons.ts';
import { lineView, PAGE_LINES, pageOf, readCursor, type TraceLine, verdictText } from '#shared/operations/timeline.ts';
import { atCursor, type CliCommands, type Flags, limitOf, type Operator, readingActFor } from './operator.ts';
import { counted, nextPage, print, Refused, table, WrongUsage } from './output.ts';

/** The commands that read what happened to an object or a person, or how an exam goes. Each read is audited. */
export const READING_COMMANDS: CliCommands = {
  trace: {
    summary: 'print one timeline of an id, with the reasons for what did not happen',
    details: `<id> is any id: of an attempt, command, notice, event, delivery, notification, job, generation,
account, session or request, or the source event id of a producer. The first five lines are the summary.
The read is audited, once an hour for each subject.`,
    args: { '<id>': 'any id, or student:ID, exam:ID, user:ID' },
    options: ['limit', 'cursor', 'reason', 'operator', 'json', 'watch'],
    examples: ['trace 01a205a8-0eb0-7d7f-ac5e-c6d6312290b5', 'trace student:student-1', 'trace exam:toan-12 --json'],
    run: trace,
  },
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

async function trace(operator: Operator, [wanted = '']: string[], flags: Flags): Promise<number> {
  const asked = readAsked(wanted);
  if (asked === null) throw new WrongUsage('pass one of ID, student:ID, exam:ID and user:ID');
  const limit = limitOf(flags, PAGE_LINES);
  const after = flags.cursor === undefined ? null : atCursor(readCursor(flags.cursor));
  const { mongo, redisUrl } = operator;
  const act = readingActFor(operator, flags);
  const redis = (await storesRings(redisUrl)) ? 'up' : 'down';
  const found = await readTrace(mongo, asked, { now: act.now, redis });
  if (found === null) throw new Refused(`nothing is stored under ${asked.by} ${asked.value}`);
  await auditTrace(mongo, act, asked, found);
  const page = pageOf(found.lines, { after, limit });
  const { lines, nextCursor } = page;
  const { subject, verdicts, moreVerdicts, cut } = found;
  const value = { subject, verdicts, moreVerdicts, lines: lines.map(lineView), cut, nextCursor };
  return print(operator, flags, value, () => [
    ...traceSummary(asked, found),
    ...(lines.length === 0 ? [] : ['', ...traceTable(lines)]),
    ...nextPage(page),
    ...(cut.length === 0 ? [] : [`not all lines were read of: ${cut.join(', ')}`]),
  ]);
}

/** The first five lines: what was found, and up to four statements of what did not happen and why. */
function traceSummary({ value }: Asked, { subject, verdicts, moreVerdicts, lines }: Trace): string[] {
  const more = moreVerdicts === 0 ? '' : `; and ${counted(moreVerdicts, 'more statement')} below`;
  const head = `${subject} ${value}: ${counted(lines.length, 'line')}${more}`;
  if (verdicts.length === 0) return [`${head}; nothing is held up`];
  return [head, ...verdicts.map((verdict) => `${verdict.standing}: ${verdictText(verdict)}`)];
}

function traceTable(lines: readonly TraceLine[]): string[] {
  return table(lines, {
    at: ({ at }) => at,
    kind: ({ kind }) => kind,
    state: ({ state }) => state,
    what: ({ what, count }) => `${what ?? '-'}${count === 1 ? '' : ` x${count}`}`,
    tries: ({ attempt }) => attempt && `${attempt.n}/${attempt.max}`,
    next: ({ nextAt }) => nextAt,
    id: ({ id }) => id,
    reason: ({ reason }) => reason && `${reason.code}: ${reason.text}`,
  });
}

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
    ...examSummary(found),
    ...(attempts.length === 0 ? [] : ['', ...attemptTable(attempts)]),
    ...nextPage(list),
  ]);
}

function examSummary({ examId, title, attempts, late, essays, notices, results }: Exam): string[] {
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

function attemptTable(rows: readonly ExamAttempt[]): string[] {
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
