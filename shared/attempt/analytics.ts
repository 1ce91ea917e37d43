import { percentOf } from '#shared/kernel/decimal.ts';
import { type Attempt, answerKeyOf, courseContextOnWire } from './attempt.ts';
import { ATTEMPT_ENTITY, ATTEMPT_SERVICE } from './notices.ts';
import type { Paper } from './question.ts';

export type AnalyticsEvent = ReturnType<typeof analyticsEvents>[number];

/**
 * What the first successful grading tells the analytics service, best effort and after its commit: v1 submitted,
 * v1 graded, and v2 graded where a course owns the attempt. `attempt` is GRADED. The ids are stable, so a second
 * sending is a replay. v2's courseContext names no exam on purpose.
 */
export function analyticsEvents(attempt: Attempt, paper: Paper, gradedAt: Date) {
  const submittedAt = (attempt.submittedAt ?? gradedAt).toISOString();
  const occurredAt = gradedAt.toISOString();
  const payload = payloadOf(attempt, paper);
  const event = (sourceEventId: string, type: string, at: string) => ({
    sourceService: ATTEMPT_SERVICE,
    sourceEventId: `${attempt._id}:${sourceEventId}`,
    type,
    entity: ATTEMPT_ENTITY,
    entityId: attempt._id,
    organizationId: attempt.organizationId,
    actorId: attempt.studentId,
    studentId: attempt.studentId,
    occurredAt: at,
    payload,
  });
  const v1 = [
    event('submitted', 'attempt.submitted.v1', submittedAt),
    event('graded', 'attempt.graded.v1', occurredAt),
  ];
  const courseContext = courseContextOnWire(attempt.courseContext);
  if (courseContext === null) return v1;
  return [...v1, { ...event('graded:v2', 'attempt.graded.v2', occurredAt), schemaVersion: 2 as const, courseContext }];
}

/** Bounded: one short line per question, no content, no answer, no key. */
function payloadOf(attempt: Attempt, paper: Paper) {
  const { exam } = attempt;
  return {
    exam: {
      id: attempt.examId,
      title: exam.title,
      subject: exam.subject,
      gradeLevel: exam.gradeLevel,
      status: exam.status,
      durationMinutes: exam.durationMinutes,
      showResultMode: exam.showResultMode,
      closeTime: exam.closeTime?.toISOString() ?? null,
      resultsReleasedAt: exam.resultsReleasedAt?.toISOString() ?? null,
    },
    result: {
      totalScore: attempt.totalScore,
      maxScore: attempt.maxScore,
      scorePercent: attempt.totalScore === null ? null : percentOf(attempt.totalScore, attempt.maxScore),
      correctCount: attempt.correctCount,
      wrongCount: attempt.wrongCount,
      durationSeconds: attempt.durationSeconds,
    },
    answerCount: Object.keys(attempt.answers).length,
    questions: attempt.order.flatMap((paperIndex) => questionLine(attempt, paper, paperIndex)),
  };
}

function questionLine(attempt: Attempt, paper: Paper, paperIndex: number) {
  const question = paper.questions[paperIndex];
  if (question === undefined) return [];
  const answer = attempt.answers[answerKeyOf(paperIndex)];
  return [
    {
      questionId: question.questionId,
      questionVersionId: question.questionVersionId,
      type: question.type,
      mode: question.scoringRule.mode,
      score: answer === undefined ? 0 : answer.score,
      maxScore: question.score,
      isCorrect: answer === undefined ? false : answer.isCorrect,
    },
  ];
}
