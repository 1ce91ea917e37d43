import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { newStamp, Stale } from '#infra/mongo/guarded-update.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { applyWrites, type Writes } from '#infra/mongo/writes.ts';
import type { Attempt, AttemptEvent, ScoreChange, StoredAnswer } from '#shared/attempt/attempt.ts';
import { handoffKey } from '#shared/attempt/commands.ts';
import type { HandoffEffects, SupersededHandoff } from '#shared/attempt/handoff.ts';
import { EVENT_TAIL_LIMIT } from '#shared/attempt/limits.ts';
import { withScoreChange } from '#shared/attempt/score-history.ts';
import type { Grading, Totals } from '#shared/attempt/scoring/grade-attempt.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { ATTEMPTS, attempts, type EventRow, whereKey } from './collections.ts';
import { rowWrites } from './event-tail.ts';
import { addToEventLog } from './events.ts';

export interface GradeWrite {
  /** The attempt as it was loaded, with the release that binds it. The write requires that nothing was written since. */
  attempt: Attempt;
  grading: Grading;
  /** SUBMIT or TIMEOUT. */
  event: Omit<AttemptEvent, 'seq'>;
}

/**
 * Returns the writes that change SUBMITTED to GRADED with scores, totals and the terminal event. They are stale if the attempt has
 * changed since it was loaded.
 */
export function gradeWrites({ attempt, grading, event }: GradeWrite): Writes[] {
  const changes = {
    // One field, because two paths for each answer cost the server almost as much as the rest of the transaction.
    answers: gradedAnswers(attempt.answers, grading),
    ...grading.totals,
    maxScore: grading.maxScore,
    status: 'GRADED' satisfies Attempt['status'],
    'exam.resultsReleasedAt': attempt.exam.resultsReleasedAt,
    releaseEventId: attempt.releaseEventId,
    ...(attempt.waitingHandoffs === undefined ? {} : { waitingHandoffs: [] }),
    'tally.scored': true,
    'tally.released': attempt.exam.resultsReleasedAt !== null,
    'tally.graded': Object.values(grading.answers).filter(({ score }) => score !== null).length,
    scoreHistory: withScoreChange(
      attempt,
      scoreChange({ ...attempt, maxScore: grading.maxScore }, grading.totals, 'GRADE', event.createdAt),
    ),
  };
  return rewrite({ attempt, status: 'SUBMITTED', changes, events: [event] });
}

function scoreChange(
  { maxScore }: Pick<Attempt, 'maxScore'>,
  { totalScore }: Pick<Totals, 'totalScore'>,
  cause: ScoreChange['cause'],
  at: Date,
  by: string | null = null,
): ScoreChange {
  return { at, by, cause, totalScore, maxScore, regradeId: null, reason: null };
}

/** The grades that a regrade gives a graded attempt. */
interface RegradeWrite extends GradeWrite {
  /** The regrade, who applied it and why, and if it is announced. */
  applied: Pick<ScoreChange, 'regradeId' | 'by' | 'reason' | 'isNews'>;
}

/**
 * Returns the writes that give a graded attempt the grades of a regrade, with its event. They are stale if the attempt has changed since it was
 * loaded.
 */
export function regradeWrites({ attempt, grading, event, applied }: RegradeWrite): Writes[] {
  const changes = {
    answers: gradedAnswers(attempt.answers, grading),
    ...grading.totals,
    maxScore: grading.maxScore,
    'tally.graded': Object.values(grading.answers).filter(({ score }) => score !== null).length,
    scoreHistory: withScoreChange(attempt, {
      ...scoreChange({ ...attempt, maxScore: grading.maxScore }, grading.totals, 'REGRADE', event.createdAt),
      ...applied,
    }),
  };
  return rewrite({ attempt, status: 'GRADED', changes, events: [event] });
}

/** Returns the answers with their grades, as the attempt stores them: without the long texts, which the load has filled in. */
function gradedAnswers(answers: Attempt['answers'], grading: Grading): Attempt['answers'] {
  const graded = Object.entries(answers).map(([key, { text, ...answer }]): [string, StoredAnswer] => {
    const stored = text === undefined || answer.textRef === true ? answer : { ...answer, text };
    return [key, { ...stored, ...grading.answers[key] }];
  });
  return Object.fromEntries(graded);
}

/**
 * Stores a manual grade in the caller's transaction: the answer's score, the recomputed totals and its event. One that another grade
 * supersedes leaves its event alone. Throws Stale if the attempt has changed since it was loaded.
 */
export async function storeHandoff(
  mongo: Mongo,
  attempt: Attempt,
  handoff: HandoffEffects | SupersededHandoff,
  now: Date,
  session: ClientSession,
): Promise<void> {
  const event = { type: 'ESSAY_GRADE_HANDOFF' as const, metadata: JSON.stringify(handoff.metadata), createdAt: now };
  const changes = handoff.kind === 'apply' ? gradeChanges(attempt, handoff, now) : {};
  await applyWrites(mongo, rewrite({ attempt, status: 'GRADED', changes, events: [event] }), session);
}

function gradeChanges(attempt: Attempt, handoff: HandoffEffects, now: Date) {
  const { answers, tally } = attempt;
  const { answerKey, grade, grader, totals, metadata } = handoff;
  const wasGraded = answers[answerKey]?.score != null;
  return {
    [`answers.${answerKey}.isCorrect`]: grade.isCorrect,
    [`answers.${answerKey}.score`]: grade.score,
    [`answers.${answerKey}.grader`]: grader,
    ...totals,
    'tally.graded': tally.graded + (wasGraded ? 0 : 1),
    scoreHistory: withScoreChange(attempt, scoreChange(attempt, totals, 'HANDOFF', now, metadata.gradedById ?? null)),
  };
}

/** A change of an attempt that was decided on what was loaded. */
interface Rewrite {
  attempt: Attempt;
  /** The status that the attempt must still have. */
  status: Attempt['status'];
  changes: Readonly<Record<string, unknown>>;
  events: readonly Omit<AttemptEvent, 'seq'>[];
}

/** Returns the writes that set fields of an attempt and append events. They are stale if the attempt has changed since it was loaded. */
export function rewrite({ attempt, status, changes, events }: Rewrite): Writes[] {
  // No save rewrites the tail from now on, so it may stay long. To move it in the minute in which all submit would double the work.
  let [log, rows]: [Pick<Attempt, 'events' | 'eventSeq'>, EventRow[]] = [attempt, []];
  for (const event of events) {
    const added = addToEventLog({ ...log, _id: attempt._id }, event, EVENT_TAIL_LIMIT);
    log = { events: added.tail, eventSeq: added.eventSeq };
    rows = [...rows, ...added.rows];
  }
  const filter = { ...whereKey(attempt), stamp: attempt.stamp, status };
  const update = {
    $set: { ...changes, stamp: newStamp(), events: log.events, eventSeq: log.eventSeq },
    $currentDate: { boardAt: true as const },
  };
  return [{ collection: ATTEMPTS, models: [{ updateOne: { filter, update } }], matched: 1 }, rowWrites(rows)];
}

/** Maximum number of handoffs that one attempt names. The next ones wait out their backoff. */
const MAX_WAITING = 200;

/**
 * Notes in the attempt that a handoff waits for its grade, in the caller's transaction, which also puts the command back. The note and the
 * grade write the same row, so one comes first: either the grade knows the handoff, or this throws and the handoff finds the grade.
 *
 * Each check writes a new stamp, also if the handoff is named already: without a write, a grade could commit unseen beside it.
 *
 * @throws Stale if the attempt is no longer SUBMITTED
 */
export async function awaitGrade(
  mongo: Mongo,
  attempt: Attempt,
  sourceEventId: string,
  session: ClientSession,
): Promise<void> {
  const isFull = (attempt.waitingHandoffs?.length ?? 0) >= MAX_WAITING;
  const written = await attempts(mongo).updateOne(
    { ...whereKey(attempt), status: 'SUBMITTED' },
    { $set: { stamp: newStamp() }, ...(isFull ? {} : { $addToSet: { waitingHandoffs: sourceEventId } }) },
    { session },
  );
  if (written.matchedCount !== 1) throw new Stale(`attempt ${attempt._id}`);
}

/**
 * Makes the handoffs due that wait for the grade of this attempt, and returns them. `attempt` is the one on which the committed grade was
 * decided. A handoff that has spent an attempt is left alone: it backs off after a failure instead of waiting for the grade.
 */
export async function makeHandoffsDue(
  mongo: Mongo,
  attempt: Pick<Attempt, '_id' | 'waitingHandoffs'>,
): Promise<CommandRef[]> {
  const keys = attempt.waitingHandoffs?.map((sourceEventId) => handoffKey(attempt._id, sourceEventId)) ?? [];
  if (keys.length === 0) return [];
  const mailbox = mailboxOf(mongo, 'essayhandoff');
  const waiting = { live: true, status: 'PENDING', attempts: 0, lockedUntil: null } as const;
  const found = await mailbox
    .find({ key: { $in: keys }, ...waiting }, { projection: { queue: 1, key: 1 }, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  if (found.length === 0) return [];
  const these = { _id: { $in: found.map(({ _id }) => _id) }, key: { $in: found.map(({ key }) => key) } };
  await mailbox.updateMany({ ...these, ...waiting }, [{ $set: { nextRunAt: '$$NOW' } }]);
  return found;
}
