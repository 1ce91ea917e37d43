import { attempts, type ExamActRow, type RegradeRow, regrades } from '#infra/mongo/attempt/collections.ts';
import { identified, openPapers } from '#infra/mongo/attempt/papers.ts';
import { storeRelease } from '#infra/mongo/attempt/release.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { insertExamAct, storeExamAct } from '#infra/mongo/exam-room/exam-acts.ts';
import { type CommandOf, type Commands, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradingOrder, handoffOrder } from '#shared/attempt/commands.ts';
import type { EssayHandoff } from '#shared/attempt/handoff.ts';
import type { Paper } from '#shared/attempt/question.ts';
import type { Release } from '#shared/attempt/release.ts';
import { examActOrder } from '#shared/exam-room/exam-act.ts';
import type { Command, Order, Queue } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { HOUR, SECOND } from '#shared/kernel/time.ts';
import { sampleAnswer, sampleAttempt, samplePaper } from './sample-attempt.ts';

/** A single choice of one point, graded by rule, and an essay of two points, graded by handoff. */
export const MIXED_PAPER: Paper = samplePaper(
  { questionId: 'choice' },
  { questionId: 'essay', score: 2, type: 'ESSAY', options: [], scoringRule: { mode: 'ESSAY' }, answerKey: {} },
);
const MIXED_ANSWERS: Attempt['answers'] = {
  q0: sampleAnswer({ selected: ['a'] }),
  q1: sampleAnswer({ text: 'Sông Hương' }),
};

/** Returns an attempt whose id, student and start key no other attempt has. */
export function freshAttempt(overrides: Partial<Attempt> = {}): Attempt {
  const id = overrides._id ?? newId();
  return sampleAttempt({
    _id: id,
    studentId: `student-${id}`,
    startKeys: [`key-${id}`],
    stamp: `stamp-${id}`,
    ...overrides,
  });
}

/** Stores an attempt in progress, its paper (default MIXED_PAPER) and its answers (default both of MIXED_PAPER, the choice right). */
export async function storeAttempt(
  mongo: Mongo,
  overrides: Partial<Attempt> = {},
  paper: Paper = MIXED_PAPER,
): Promise<Attempt> {
  const paperId = await openPapers(mongo, 1).store(atOnce(identified(paper)));
  const answers = overrides.answers ?? structuredClone(MIXED_ANSWERS);
  const { tally } = sampleAttempt();
  const counted = { ...tally, questions: paper.questions.length, answers: Object.keys(answers).length };
  const maxScore = paper.questions.reduce((sum, question) => sum + question.score, 0);
  const attempt = freshAttempt({ paperId, answers, maxScore, tally: counted, ...overrides });
  await attempts(mongo).insertOne(attempt);
  return attempt;
}

/** Fields that make an attempt one that waits for its grade. */
export const SUBMITTED = {
  status: 'SUBMITTED',
  submittedAt: new Date('2026-05-04T03:30:00.000Z'),
  submittedBy: 'STUDENT',
  durationSeconds: 1_800,
} as const satisfies Partial<Attempt>;

/** Returns the fields that make a MIXED_PAPER attempt a graded one whose essay is pending. */
export function graded(exam: Partial<Attempt['exam']> = {}): Partial<Attempt> {
  return {
    ...SUBMITTED,
    status: 'GRADED',
    answers: {
      q0: sampleAnswer({ selected: ['a'], isCorrect: true, score: 1 }),
      q1: sampleAnswer({ text: 'Sông Hương' }),
    },
    totalScore: 1,
    correctCount: 1,
    wrongCount: 0,
    pendingManualCount: 1,
    exam: { ...sampleAttempt().exam, ...exam },
  };
}

export interface PostOptions {
  maxAttempts?: number;
  runAt?: number;
}

export function postGrading(mongo: Mongo, attempt: Attempt, options?: PostOptions): Promise<Command> {
  return postOrder(mongo, gradingOrder(attempt), options);
}

/** Posts a handoff of 1.5 points for the essay, unless `handoff` overrides fields. */
export function postHandoff(
  mongo: Mongo,
  attempt: Attempt,
  handoff: Partial<EssayHandoff> = {},
  options?: PostOptions,
): Promise<Command> {
  const whole: EssayHandoff = {
    sourceEventId: newId(),
    questionId: 'essay',
    score: 1.5,
    maxScore: 2,
    provider: null,
    model: null,
    occurredAt: null,
    feedback: null,
    criteria: null,
    ...handoff,
  };
  return postOrder(mongo, handoffOrder(attempt, whole), options);
}

export async function postRelease(
  mongo: Mongo,
  release: Pick<Release, 'examId'> & Partial<Release>,
  options: PostOptions = {},
): Promise<Command> {
  const whole: Release = { organizationId: null, releasedAt: new Date(), sourceEventId: newId(), ...release };
  return (await storeRelease(mongo, whole, { ...termsOf(options), budgetMs: 60_000 })).command;
}

/** Posts a grant of ten minutes for all who sit an exam, by an admin, unless `grant` overrides fields. */
export async function postExtraTime(
  mongo: Mongo,
  grant: Pick<ExamActRow, 'examId'> & Partial<ExamActRow>,
  options: PostOptions = {},
): Promise<CommandOf<'examroom'>> {
  const { maxAttempts, now, ...due } = termsOf(options);
  const row: ExamActRow = {
    _id: newId(),
    kind: 'EXTRA_TIME',
    minutes: 10,
    studentIds: null,
    by: { id: 'admin-1', role: 'ADMIN' },
    reason: 'the fire alarm',
    at: new Date(now),
    updated: 0,
    sitting: 0,
    ...grant,
  };
  const { _id, kind, examId, by } = row;
  const order = examActOrder(_id, examId, { kind, examId, by });
  return storeExamAct(mongo, newCommand({ ...order, id: _id, maxAttempts, now, ...due }), (session) =>
    insertExamAct(mongo, row, session),
  );
}

/** Stores a regrade by an admin that makes `b` the right choice, and posts its preview, or its application after the preview. */
export async function postRegrade(mongo: Mongo, examId: string, kind: 'REGRADE' | 'REGRADE_APPLY'): Promise<Command> {
  const [regradeId, id, by] = [newId(), newId(), { id: 'admin-1', role: 'ADMIN' } as const];
  const reason = 'the key was wrong';
  const row: RegradeRow = {
    _id: regradeId,
    examId,
    state: kind === 'REGRADE' ? 'PREVIEWING' : 'PREVIEW',
    changes: [{ questionId: 'choice', questionVersionId: null, answerKey: { correctOptionIds: ['b'] } }],
    ...{ by, reason, createdAt: new Date(), appliedAt: null, isApplied: false },
    ...{ attempts: 0, changed: 0, up: 0, down: 0, expiresAt: new Date(Date.now() + HOUR) },
  };
  await regrades(mongo).insertOne(row);
  return postOrder(mongo, { ...examActOrder(id, examId, { kind, examId, regradeId, by, statedReason: reason }), id });
}

/** Posts the command of an order, due one second ago by default, so that it is due even if the test's clock is ahead of MongoDB's. */
export async function postOrder<Q extends Queue>(
  mongo: Mongo,
  order: Order<Q, Commands[Q]['body']> & { id?: string },
  options: PostOptions = {},
): Promise<CommandOf<Q>> {
  return (await postCommand(mongo, newCommand({ ...order, ...termsOf(options) }))).command;
}

function termsOf({ maxAttempts = 10, runAt }: PostOptions) {
  return { maxAttempts, now: Date.now() - SECOND, ...(runAt === undefined ? {} : { runAt }) };
}
