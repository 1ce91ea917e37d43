import { type Totals, totalsOf } from '#shared/attempt/scoring/grade-attempt.ts';
import { gradeByHand, isInRange } from '#shared/attempt/scoring/score-question.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Optional } from '#shared/kernel/json.ts';
import { parseInstant } from '#shared/kernel/time.ts';
import { type Attempt, answerKeyOf, type Grader } from './attempt.ts';
import { isErasedAttempt } from './erased.ts';
import { type IdFacts, isScoredByHand, type Paper, paperIndexOf } from './question.ts';

/** The body of a handoff that passed its schema. */
export interface HandoffBody {
  sourceEventId: string;
  questionId: string;
  score: number;
  maxScore: number;
  feedback?: Optional<string>;
  criteria?: Optional<readonly HandoffCriterionInput[]>;
  provider?: Optional<string>;
  model?: Optional<string>;
  occurredAt?: Optional<string>;
}

interface HandoffCriterionInput {
  id?: Optional<string>;
  name?: Optional<string>;
  score?: Optional<number>;
  maxScore?: Optional<number>;
  comment?: Optional<string>;
}

/** A handoff as it is stored in its command and its event. */
export interface EssayHandoff {
  sourceEventId: string;
  questionId: string;
  score: number;
  maxScore: number;
  provider: string | null;
  model: string | null;
  occurredAt: string | null;
  feedback: string | null;
  criteria: Record<string, string | number>[] | null;
  /** The admin or teacher whose grade a gateway forwarded; absent if the sender graded by itself. */
  gradedById?: string;
}

/** Copies the named fields of a handoff and adds the grader. Additional fields of a producer are dropped. */
export function copyHandoff(body: HandoffBody, gradedById?: string): EssayHandoff {
  const occurredAt = body.occurredAt == null ? null : parseInstant(body.occurredAt);
  return {
    sourceEventId: body.sourceEventId,
    questionId: body.questionId,
    score: body.score,
    maxScore: body.maxScore,
    provider: body.provider ?? null,
    model: body.model ?? null,
    occurredAt: occurredAt?.toISOString() ?? null,
    feedback: body.feedback ?? null,
    criteria: body.criteria?.map(copyCriterion) ?? null,
    ...(gradedById === undefined ? {} : { gradedById }),
  };
}

/** Changes that an applied handoff makes. `metadata` belongs to its ESSAY_GRADE_HANDOFF event. */
export interface HandoffEffects {
  kind: 'apply';
  paperIndex: number;
  /** The field of `attempt.answers`. */
  answerKey: string;
  grade: { isCorrect: boolean; score: number };
  grader: Grader;
  totals: Totals;
  metadata: EssayHandoff;
}

/** The grade that a handoff cannot replace: that of a person, or one that was made later. */
export type SupersededBy = 'PERSON' | 'NEWER';

/** A handoff that changes no grade. Its event records it, because a grade that was sent must not vanish. */
export interface SupersededHandoff {
  kind: 'supersede';
  supersededBy: SupersededBy;
  metadata: EssayHandoff & { applied: false; supersededBy: SupersededBy };
}

type HandoffDecision = HandoffEffects | SupersededHandoff | { kind: 'wait' } | { kind: 'refuse'; rejection: Rejection };

function refuse(rejected: Rejection['rejected']): HandoffDecision {
  return { kind: 'refuse', rejection: { rejected } };
}

/**
 * Decides a handoff that was not applied yet. An invalid handoff is refused at once, even while the attempt is SUBMITTED,
 * because paper and answers no longer change then. A valid one waits while the attempt is SUBMITTED, because the grading
 * worker owns the scores until the attempt is GRADED. `now` is the time of a grade whose sender named none.
 */
export function decideHandoff(
  attempt: IdFacts & Pick<Attempt, 'status' | 'answers' | 'erasedAt'>,
  paper: Paper,
  handoff: EssayHandoff,
  now: Date,
): HandoffDecision {
  // The text is erased, and the remarks of a grade are about the student.
  if (isErasedAttempt(attempt)) return refuse('ATTEMPT_NOT_FOUND');
  if (attempt.status === 'IN_PROGRESS') return refuse('ATTEMPT_NOT_SUBMITTED');
  const paperIndex = paperIndexOf(attempt, paper, handoff.questionId);
  const question = paperIndex === null ? undefined : paper.questions[paperIndex];
  if (paperIndex === null || question === undefined) return refuse('QUESTION_NOT_IN_ATTEMPT');
  if (!isScoredByHand(question)) return refuse('QUESTION_NOT_MANUAL');
  const answerKey = answerKeyOf(paperIndex);
  const stored = attempt.answers[answerKey];
  if (stored === undefined) return refuse('ANSWER_NOT_FOUND');
  const { maxScore, score } = handoff;
  // `score` is in points of the question. It is never scaled, even if maxScore differs from the question's score.
  if (!isInRange(score, maxScore) || !isInRange(score, question.score)) return refuse('SCORE_OUT_OF_RANGE');
  if (attempt.status === 'SUBMITTED') return { kind: 'wait' };

  // The sender may have named the question by the id of the attempt's question.
  const metadata = { ...handoff, questionId: question.questionId };
  const supersededBy = whySuperseded(stored.grader, handoff);
  if (supersededBy !== null) {
    return { kind: 'supersede', supersededBy, metadata: { ...metadata, applied: false, supersededBy } };
  }
  const grade = gradeByHand(question, score);
  const totals = totalsOf(paper, { ...attempt.answers, [answerKey]: grade });
  const at = handoff.occurredAt === null ? now : new Date(handoff.occurredAt);
  return {
    kind: 'apply',
    paperIndex,
    answerKey,
    grade,
    grader: { isPerson: isByPerson(handoff), at },
    totals,
    metadata,
  };
}

function isByPerson({ gradedById }: EssayHandoff): boolean {
  return gradedById !== undefined;
}

/**
 * Returns why a handoff cannot replace the current grade, or null. Messages may overtake each other, so the order of arrival
 * decides only between grades of the same time. A handoff without a time is the newest.
 */
function whySuperseded(current: Grader | undefined, handoff: EssayHandoff): SupersededBy | null {
  if (current === undefined) return null;
  if (current.isPerson !== isByPerson(handoff)) return current.isPerson ? 'PERSON' : null;
  const isEarlier = handoff.occurredAt !== null && Date.parse(handoff.occurredAt) < current.at.getTime();
  return isEarlier ? 'NEWER' : null;
}

function copyCriterion({ id, name, score, maxScore, comment }: HandoffCriterionInput): Record<string, string | number> {
  return {
    ...(id == null ? {} : { id }),
    ...(name == null ? {} : { name }),
    ...(score == null ? {} : { score }),
    ...(maxScore == null ? {} : { maxScore }),
    ...(comment == null ? {} : { comment }),
  };
}
