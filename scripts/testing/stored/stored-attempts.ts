import { attempts } from '#infra/mongo/attempt/collections.ts';
import { openPapers } from '#infra/mongo/attempt/papers.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type CommandOf, type Commands, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradingOrder, handoffOrder, releaseOrder } from '#shared/attempt/commands.ts';
import type { EssayHandoff } from '#shared/attempt/handoff.ts';
import type { Paper } from '#shared/attempt/question.ts';
import type { Release } from '#shared/attempt/release.ts';
import type { Command, Order, Queue } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { sampleAnswer, sampleAttempt, samplePaper } from './sample-attempt.ts';

/** A choice of one point, answered right, and an essay of two points, answered: one graded by rule, one by hand. */
export const MIXED_PAPER: Paper = samplePaper(
  { questionId: 'choice' },
  { questionId: 'essay', score: 2, type: 'ESSAY', options: [], scoringRule: { mode: 'ESSAY' }, answerKey: {} },
);
const MIXED_ANSWERS: Attempt['answers'] = {
  q0: sampleAnswer({ selected: ['a'] }),
  q1: sampleAnswer({ text: 'Sông Hương' }),
};

/** An attempt that no unique index confuses with another one: id, student and start key are its own. */
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

/** Stores an attempt that is in progress, its paper (MIXED_PAPER unless told) and both its answers. */
export async function storeAttempt(
  mongo: Mongo,
  overrides: Partial<Attempt> = {},
  paper: Paper = MIXED_PAPER,
): Promise<Attempt> {
  const paperId = await openPapers(mongo, 1).keep(paper);
  const answers = overrides.answers ?? structuredClone(MIXED_ANSWERS);
  const { tally } = sampleAttempt();
  const counted = { ...tally, questions: paper.questions.length, answers: Object.keys(answers).length };
  const maxScore = paper.questions.reduce((sum, question) => sum + question.score, 0);
  const attempt = freshAttempt({ paperId, answers, maxScore, tally: counted, ...overrides });
  await attempts(mongo).insertOne(attempt);
  return attempt;
}

/** What turns a stored attempt into one that waits for its grade. */
export const SUBMITTED = {
  status: 'SUBMITTED',
  submittedAt: new Date('2026-05-04T03:30:00.000Z'),
  submittedBy: 'STUDENT',
  durationSeconds: 1_800,
} as const satisfies Partial<Attempt>;

/** What turns a stored MIXED_PAPER attempt into a graded one whose essay is pending. */
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
  /** Unix milliseconds. */
  runAt?: number;
}

export async function postGrading(mongo: Mongo, attempt: Attempt, options: PostOptions = {}): Promise<Command> {
  return post(mongo, gradingOrder(attempt._id), options);
}

export async function postHandoff(
  mongo: Mongo,
  attempt: Attempt,
  handoff: Partial<EssayHandoff> = {},
  options: PostOptions = {},
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
  return post(mongo, handoffOrder(attempt._id, whole), options);
}

export async function postRelease(
  mongo: Mongo,
  release: Pick<Release, 'examId'> & Partial<Release>,
  options: PostOptions = {},
): Promise<Command> {
  const whole: Release = { organizationId: null, releasedAt: new Date(), sourceEventId: newId(), ...release };
  return post(mongo, releaseOrder(whole), options);
}

async function post<Q extends Queue>(
  mongo: Mongo,
  order: Order<Q, Commands[Q]['body']>,
  { maxAttempts = 10, runAt }: PostOptions,
): Promise<CommandOf<Q>> {
  // A moment ago, so that it is due whatever the two clocks of a test say.
  const now = Date.now() - 1_000;
  const { command } = await postCommand(
    mongo,
    newCommand({ ...order, maxAttempts, now, ...(runAt === undefined ? {} : { runAt }) }),
  );
  return command;
}
