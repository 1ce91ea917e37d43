import { attempts, eventRows, releases } from '#infra/mongo/attempt/collections.ts';
import { COMMANDS, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { EXAM_ACTIONS } from '#infra/mongo/operator-audit.ts';
import { type Attempt, isVoided, type ScoreChange } from '#shared/attempt/attempt.ts';
import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { reason, span, type Why } from '#shared/operations/reasons.ts';
import { traceLine } from '#shared/operations/timeline.ts';
import { addEventsOf } from './notification-lines.ts';
import { addActs, addCommand, BOUND, CAP, capped, commandsOf, type Reading } from './reading.ts';

/** Fields of an attempt that a trace reads. Answers, scores and metadata of events stay in the database. */
const HEAD = {
  examId: 1,
  studentId: 1,
  status: 1,
  startedAt: 1,
  submittedAt: 1,
  submittedBy: 1,
  deadlineAt: 1,
  releaseEventId: 1,
  pendingManualCount: 1,
  erasedAt: 1,
  eventSeq: 1,
  'exam.showResultMode': 1,
  'exam.resultsReleasedAt': 1,
  'exam.closeTime': 1,
  voidedAt: 1,
  'events.seq': 1,
  'events.type': 1,
  'events.createdAt': 1,
  'scoreHistory.at': 1,
  'scoreHistory.by': 1,
  'scoreHistory.cause': 1,
  'scoreHistory.regradeId': 1,
} as const;

type Head = Pick<
  Attempt,
  | '_id'
  | 'examId'
  | 'studentId'
  | 'status'
  | 'startedAt'
  | 'submittedAt'
  | 'submittedBy'
  | 'deadlineAt'
  | 'pendingManualCount'
  | 'erasedAt'
  | 'eventSeq'
  | 'voidedAt'
> & {
  exam: Pick<Attempt['exam'], 'showResultMode' | 'resultsReleasedAt' | 'closeTime'>;
  events: Pick<Attempt['events'][number], 'seq' | 'type' | 'createdAt'>[];
  /** Missing in an attempt that was never graded since histories are stored. */
  scoreHistory?: Pick<ScoreChange, 'at' | 'by' | 'cause' | 'regradeId'>[];
};

/** Attempts that the trace of a student or an exam reads. */
const MAX_ATTEMPTS = 50;

/** Adds everything about one attempt: its events, commands, notices, what became of them, and the releases and acts of its exam. */
export async function addAttempt(reading: Reading, id: string): Promise<boolean> {
  const head = await attempts(reading.mongo).findOne<Head>({ _id: id }, { ...BOUND, projection: HEAD });
  if (head === null) return false;
  await addHeads(reading, [head]);
  await addEvents(reading, head);
  addRegrades(reading, head);
  await addReleases(reading, head.examId);
  await addActs(reading, [head.examId], EXAM_ACTIONS);
  for (const command of await commandsOf(reading, [head.examId], [COMMANDS])) addCommand(reading, command);
  return true;
}

/** Adds the newest attempts of a student, without their events. Returns false if it does not exist. */
export async function addAttemptsOfStudent(reading: Reading, studentId: string): Promise<boolean> {
  const heads = await attempts(reading.mongo)
    .find<Head>({ studentId }, { ...BOUND, projection: HEAD, sort: { startedAt: -1 }, limit: MAX_ATTEMPTS + 1 })
    .toArray();
  await addHeads(reading, capped(reading, 'attempt', heads, MAX_ATTEMPTS));
  return heads.length > 0;
}

/**
 * Adds the releases of an exam with their commands, and its attempts that wait for a grade. An exam without a release that shows results by
 * hand has a line about it. Returns false if the exam does not exist.
 */
export async function addExam(reading: Reading, examId: string): Promise<boolean> {
  const options = { ...BOUND, projection: HEAD, sort: { _id: 1 as const }, limit: MAX_ATTEMPTS + 1 };
  const waiting = await attempts(reading.mongo)
    .find<Head>({ examId, status: 'SUBMITTED' }, { ...options, hint: 'ungraded_of_exam' })
    .toArray();
  await addHeads(reading, capped(reading, 'attempt', waiting, MAX_ATTEMPTS));
  const released = await addReleases(reading, examId);
  await addActs(reading, [examId], EXAM_ACTIONS);
  const commands = await commandsOf(reading, [examId], [COMMANDS]);
  for (const command of commands) addCommand(reading, command);
  if (released) return true;
  const any = await attempts(reading.mongo).findOne<Head>(
    { examId },
    { ...BOUND, projection: HEAD, hint: 'unreleased' },
  );
  if (any !== null && waitsForRelease(any)) {
    const about = { id: examId, state: 'NONE', about: examId };
    const why: Why = { effect: 'results not visible', reason: NOT_RELEASED };
    reading.lines.push(traceLine({ at: any.startedAt, kind: 'release', ...about, ...why }));
  }
  return any !== null || waiting.length > 0 || commands.length > 0;
}

const NOT_RELEASED = reason(
  'WAITS_FOR_RELEASE',
  'the results are not released, and the exam shows them by hand',
  'let the exam service release them',
);

function waitsForRelease({ exam }: Head): boolean {
  return exam.resultsReleasedAt === null && exam.showResultMode === 'MANUAL';
}

/** Adds the lines of attempts, their commands and notices, and what became of the notices. */
async function addHeads(reading: Reading, heads: readonly Head[]): Promise<void> {
  const ids = heads.map(({ _id }) => _id);
  const commands = await commandsOf(reading, ids, [COMMANDS, NOTICES]);
  const bySubject = Map.groupBy(commands, ({ subject }) => subject);
  for (const head of heads) {
    const own = bySubject.get(head._id) ?? [];
    addHead(reading, head, own);
    for (const command of own) addCommand(reading, command, head.status === 'GRADED');
  }
  const sent = commands.filter(({ queue }) => queue.startsWith('gradenotices:')).map(({ _id }) => _id);
  await addEventsOf(reading, { sourceService: [ATTEMPT_SERVICE], sourceEventIds: sent });
  await addActs(reading, ids);
}

function addHead({ lines, cluster }: Reading, head: Head, commands: readonly Command[]): void {
  const { _id: id, examId, studentId, startedAt, submittedAt, submittedBy, status } = head;
  const said = whyAttemptWaits(head, commands, cluster);
  lines.push(traceLine({ at: startedAt, kind: 'attempt', id, state: status, what: examId, about: studentId, ...said }));
  if (submittedAt === null) return;
  lines.push(
    traceLine({
      at: submittedAt,
      kind: 'attempt',
      id: `${id}:submitted`,
      state: 'SUBMITTED',
      what: submittedBy,
      about: id,
    }),
  );
}

/** Returns why an attempt does not go on, beside its commands; an empty object if nothing holds it. */
function whyAttemptWaits(head: Head, commands: readonly Command[], { now, workers }: Reading['cluster']): Why {
  const { status, deadlineAt, exam, pendingManualCount, erasedAt } = head;
  if (erasedAt != null) return { effect: 'no notice queued', reason: reason('ERASED', 'the student is erased') };
  if (status === 'IN_PROGRESS') {
    const lateMs = deadlineAt === null ? 0 : now - deadlineAt.getTime();
    if (lateMs <= 0) return {};
    const effect = 'not submitted';
    const passed = `its deadline passed ${span(lateMs)} ago`;
    return workers.some(({ actor }) => actor === 'upkeep')
      ? { effect, reason: reason('SCHEDULED', `${passed}; the overdue sweep submits it`) }
      : { effect, reason: reason('NO_WORKER', `${passed}, and no live \`upkeep\` worker sweeps`, 'scale `upkeep`') };
  }
  if (isVoided(head)) {
    return {
      effect: 'no notice queued',
      reason: reason('VOIDED', 'an examiner has voided the attempt', 'restore it if it must count'),
    };
  }
  if (status !== 'GRADED') return {};
  const hasNotices = commands.some(({ queue }) => queue.startsWith('gradenotices:'));
  if (!hasNotices && waitsForRelease(head)) return { effect: 'no notice queued', reason: NOT_RELEASED };
  if (!hasNotices && exam.resultsReleasedAt === null && exam.showResultMode === 'AFTER_CLOSE') {
    return { effect: 'no notice queued', reason: reason('NEVER_NOTIFIED', 'the exam shows results after its close') };
  }
  const pending = pendingManualCount ?? 0;
  if (pending === 0) return {};
  const text = `${pending} ${pending === 1 ? 'answer waits' : 'answers wait'} for a grade by hand`;
  return { effect: 'not graded completely', reason: reason('WAITS_FOR_GRADE', text) };
}

async function addEvents(reading: Reading, { _id, events, eventSeq }: Head): Promise<void> {
  const rows = await eventRows(reading.mongo)
    .find({ attemptId: _id, seq: { $gt: eventSeq - CAP } }, { ...BOUND, projection: { seq: 1, type: 1, createdAt: 1 } })
    .sort({ seq: 1 })
    .toArray();
  if (eventSeq > CAP) reading.cut.add('event');
  // While a tail is rolled, an event is in both places.
  const bySeq = new Map([...rows, ...events].map((event) => [event.seq, event]));
  for (const { seq, type, createdAt } of [...bySeq.values()].sort((a, b) => a.seq - b.seq)) {
    reading.lines.push(
      traceLine({ at: createdAt, kind: 'event', id: `${_id}:${seq}`, state: 'STORED', what: type, about: _id }),
    );
  }
}

/** Adds who has graded the attempt anew, by which regrade. The totals are in its history for examiners: a trace holds no score. */
function addRegrades({ lines }: Reading, { _id, scoreHistory = [] }: Head): void {
  for (const { at, by, cause, regradeId } of scoreHistory) {
    if (cause !== 'REGRADE') continue;
    const id = `${_id}:${regradeId}`;
    lines.push(traceLine({ at, kind: 'act', id, state: 'attempt.regraded', what: by, about: regradeId }));
  }
}

async function addReleases(reading: Reading, examId: string): Promise<boolean> {
  const rows = await releases(reading.mongo)
    .find({ examId }, { ...BOUND, sort: { number: -1 }, limit: CAP + 1 })
    .toArray();
  for (const { _id: id, releasedAt, sourceEventId } of capped(reading, 'release', rows)) {
    const aheadMs = releasedAt.getTime() - reading.cluster.now;
    const ahead = `the release time is ${releasedAt.toISOString()}, in ${span(aheadMs)}`;
    const why: Why = aheadMs > 0 ? { effect: 'results not visible', reason: reason('RELEASE_AHEAD', ahead) } : {};
    const state = aheadMs > 0 ? 'AHEAD' : 'RELEASED';
    reading.lines.push(
      traceLine({ at: releasedAt, kind: 'release', id, state, what: sourceEventId, about: examId, ...why }),
    );
  }
  return rows.length > 0;
}
