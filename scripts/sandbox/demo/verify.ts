import { isDeepStrictEqual } from 'node:util';
import { asStudent } from '#scripts/sandbox/gateway.ts';
import { fitAnswer, pickAnswer } from '#shared/attempt/answer.ts';
import { type AnswerContent, answerKeyOf } from '#shared/attempt/attempt.ts';
import { copyPaper } from '#shared/attempt/copy-paper.ts';
import type { Paper } from '#shared/attempt/question.ts';
import { type Grading, gradeAttempt, totalsOf } from '#shared/attempt/scoring/grade-attempt.ts';
import { gradeByHand } from '#shared/attempt/scoring/score-question.ts';
import { percentOf } from '#shared/kernel/decimal.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import type {
  Answer,
  AttemptDetail,
  Regrade,
  RegradeRow,
  StartQuestion,
  Statistics,
} from '../../../clients/typescript/src/index.ts';
import { type DemoDeps, differences, type Sitting, THE_TEACHER } from './sit-exam.ts';

export type Verified = Awaited<ReturnType<typeof verifySitting>>;

/**
 * Reads a released result, as the teacher if the attempt is voided, and compares it with the record of the sitting. The result must have
 * exactly the acknowledged answers, the scores and totals that the rules of the product give to them, and a log of every acknowledged
 * action.
 */
export async function verifySitting(deps: DemoDeps, sitting: Sitting, paper: Paper) {
  const { attemptId, student } = sitting;
  const complain = (fault: string) => deps.complain(`${student.id}: ${fault}`);
  if (sitting.isVoid) await verifyHidden(deps, sitting);
  const as = sitting.isVoid ? THE_TEACHER : asStudent(student);
  const { attempt, scorePercent } = await deps.gateway.client('result').readResult({ attemptId, as });
  const { answers: grades, totals } = gradeSitting(paper, sitting);
  const { pendingManualCount: _waiting, ...shown } = totals;
  const percent = percentOf(totals.totalScore, attempt.maxScore);
  const expected = { status: 'GRADED', resultVisible: true, ...shown, scorePercent: percent };
  differences("the result's", { ...attempt, scorePercent }, expected).forEach(complain);
  if (!sitting.isVoid && attempt.questions.some((question) => 'answerKey' in question))
    complain('the result shows the answer key');
  checkLog(sitting, attempt, complain);

  const stored = new Map(attempt.answers.map((answer) => [answer.questionId, answer]));
  if (stored.size !== sitting.answers.size)
    complain(`${stored.size} answers are stored, ${sitting.answers.size} were acknowledged`);
  let answersStored = 0;
  for (const [index, { questionId }] of paper.questions.entries()) {
    const [answer, found] = [sitting.answers.get(questionId), stored.get(questionId)];
    if (answer === undefined) continue;
    if (isDeepStrictEqual(found?.answer, answer)) answersStored += 1;
    else complain(`the answer to ${questionId} ${found === undefined ? 'is lost' : 'has changed'}`);
    if (found !== undefined) differences(`${questionId}'s`, found, grades[answerKeyOf(index)] ?? {}).forEach(complain);
  }
  return { sitting, attempt, scorePercent, totalScore: attempt.totalScore ?? 0, answersStored };
}

/** Checks that the student of a voided attempt sees that it is voided, and neither a grade nor the reason. */
export async function verifyHidden({ gateway, complain }: DemoDeps, { attemptId, student }: Sitting): Promise<void> {
  const { attempt } = await gateway.client('result').readResult({ attemptId, as: asStudent(student) });
  const wanted = { resultVisible: false, hiddenReason: 'Bài làm đã bị huỷ.', totalScore: null, voidReason: undefined };
  differences(`the voided attempt's`, attempt, wanted).forEach(complain);
}

/** Returns the paper as the attempt service copies it. */
export function copiedPaper(questions: readonly StartQuestion[]): Paper {
  const copied = atOnce(copyPaper(questions));
  if (isRejection(copied)) throw new Error(`the paper is refused: ${copied.rejected}`);
  return copied.paper;
}

/** Returns the grades of a sitting after the handoff of its essay, by the rules of the product. */
export function gradeSitting(paper: Paper, { answers, essayPoints }: Sitting): Grading {
  const { answers: grades, maxScore } = gradeAnswers(paper, answers);
  for (const [index, question] of paper.questions.entries()) {
    const key = answerKeyOf(index);
    if (grades[key]?.score === null && essayPoints !== null) grades[key] = gradeByHand(question, essayPoints);
  }
  return { answers: grades, totals: totalsOf(paper, grades), maxScore };
}

export function gradeAnswers(paper: Paper, answers: ReadonlyMap<string, Answer>): Grading {
  const stored: Record<string, AnswerContent> = {};
  for (const [index, question] of paper.questions.entries()) {
    const { questionId } = question;
    const answer = answers.get(questionId);
    if (answer === undefined) continue;
    const picked = pickAnswer({ questionId, answer });
    const content = isRejection(picked) ? picked : fitAnswer(picked, question);
    if (isRejection(content)) throw new Error(`${questionId}: ${JSON.stringify(answer)} is refused`);
    stored[answerKeyOf(index)] = content;
  }
  return atOnce(gradeAttempt(paper, stored));
}

/** Checks that a teacher of the exam sees the answer keys, which are hidden from students. */
export async function verifyTeacherView({ gateway, complain }: DemoDeps, { attemptId }: Sitting): Promise<void> {
  const { questions } = await gateway.client('teacher reads').readAttempt({ attemptId, as: THE_TEACHER });
  if (!questions.some((question) => 'answerKey' in question)) complain('the teacher does not see the keys');
}

/**
 * Checks that the log has START, the handoff, and each SUBMIT, act of the teacher, acknowledged save and client event once. Unacknowledged
 * sendings may add events.
 */
function checkLog(sitting: Sitting, attempt: AttemptDetail, complain: (fault: string) => void): void {
  const { rounds, actsLogged, savesAcknowledged, eventsAcknowledged, essayPoints } = sitting;
  const least = 1 + rounds + actsLogged + savesAcknowledged + eventsAcknowledged + (essayPoints === null ? 0 : 1);
  const most = least + sitting.actsInDoubt;
  if (attempt.eventCount < least || attempt.eventCount > most) {
    complain(`the log has ${attempt.eventCount} events, expected ${least} to ${most}`);
  }
  const ends = attempt.events.filter((event) => event.type === 'SUBMIT' || event.type === 'TIMEOUT').length;
  if (ends !== rounds) complain(`the log has ${ends} submits, expected ${rounds}`);
}

/** Half a unit of the sixth place, to which statistics are rounded, and a little for floating-point numbers. */
const ROUNDING = 0.6e-6;
/** Attempts from which statistics show a discrimination. */
const ENOUGH = 10;

/** Returns the faults of statistics, which the demo computes itself from the answers. A voided attempt counts nowhere. */
export function statisticsFaults(shown: Statistics, sittings: readonly Sitting[], paper: Paper): string[] {
  const graded = sittings.filter(({ isVoid }) => !isVoid).map((sitting) => gradeSitting(paper, sitting));
  const totals = graded.map(({ totals: { totalScore } }) => totalScore);
  const faults = differences("the statistics'", shown, { attempts: totals.length });
  const compare = (name: string, value: number | null, own: number | null) => {
    const isNear = value === null || own === null ? value === own : Math.abs(value - own) <= ROUNDING;
    if (!isNear) faults.push(`the ${name} is ${value}, expected ${own}`);
  };
  compare('mean', shown.mean, meanOf(totals));
  for (const [index, { questionId, score: full, type }] of paper.questions.entries()) {
    const found = shown.questions.find((question) => question.questionId === questionId);
    // Essays without a grade count nowhere: those of the demo's own marks have one each.
    if (type === 'ESSAY') continue;
    const scores = graded.map(({ answers }) => answers[answerKeyOf(index)]?.score ?? 0);
    const rests = totals.map((total, at) => total - (scores[at] ?? 0));
    const mean = meanOf(scores);
    const own = totals.length < ENOUGH ? null : correlationOf(scores, rests);
    compare(`facility of ${questionId}`, found?.facility ?? null, mean === null ? null : mean / full);
    compare(`discrimination of ${questionId}`, found?.discrimination ?? null, own);
    const isFlagged = found?.flags.includes('NEGATIVE_DISCRIMINATION') === true;
    if (isFlagged !== (own !== null && own < -ROUNDING)) faults.push(`${questionId} has the flags ${found?.flags}`);
  }
  return faults;
}

function meanOf(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Returns Pearson's correlation, or null if one of both does not vary. */
function correlationOf(ones: readonly number[], others: readonly number[]): number | null {
  const [mean = 0, other = 0] = [meanOf(ones) ?? 0, meanOf(others) ?? 0];
  const product = ones.reduce((sum, one, at) => sum + (one - mean) * ((others[at] ?? 0) - other), 0);
  const spread = (values: readonly number[], middle: number) =>
    values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  const both = spread(ones, mean) * spread(others, other);
  return both < Number.EPSILON ? null : product / Math.sqrt(both);
}

/** Checks counts and rows of a preview against the demo's own grades. Returns the sittings whose total the regrade changes. */
export function verifyRegrade(
  { complain }: DemoDeps,
  { preview, rows }: { preview: Regrade; rows: readonly RegradeRow[] },
  sittings: readonly Sitting[],
  totalsOfSitting: (sitting: Sitting) => { before: number; after: number },
): Sitting[] {
  const graded = sittings.map((sitting) => ({ sitting, ...totalsOfSitting(sitting) }));
  const changed = graded.filter(({ before, after }) => before !== after);
  const up = changed.filter(({ before, after }) => after > before).length;
  const counts = { attempts: sittings.length, changed: changed.length, up, down: changed.length - up };
  differences("the preview's", preview, counts).forEach(complain);
  if (rows.length !== changed.length) complain(`the preview has ${rows.length} rows, expected ${changed.length}`);
  const found = new Map(rows.map((row) => [row.attemptId, row]));
  for (const { sitting, before, after } of changed) {
    const row = found.get(sitting.attemptId);
    const shown = { before: row?.before.totalScore, after: row?.after.totalScore };
    differences(`the preview of ${sitting.student.id}:`, shown, { before, after }).forEach(complain);
  }
  return changed.map(({ sitting }) => sitting);
}
