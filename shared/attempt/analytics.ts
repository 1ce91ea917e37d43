import { percentOf } from '#shared/kernel/decimal.ts';
import { type Attempt, answerKeyOf, courseContextOnWire, ofRound } from './attempt.ts';
import { ATTEMPT_ENTITY, ATTEMPT_SERVICE } from './notices.ts';
import type { Paper } from './question.ts';

export type AnalyticsEvent = ReturnType<typeof analyticsEvents>[number];

/**
 * Returns the events of the first successful grading for the analytics service. They are sent after its commit, best effort:
 * v1 submitted, v1 graded and, if a course owns the attempt, v2 graded. `attempt` must be GRADED. The ids are stable, so that
 * sending twice is a replay. The courseContext of v2 deliberately contains no exam id.
 */
export function analyticsEvents(attempt: Attempt, paper: Paper, gradedAt: Date) {
  const submittedAt = (attempt.submittedAt ?? gradedAt).toISOString();
  const occurredAt = gradedAt.toISOString();
  const payload = payloadOf(attempt, paper);
  const event = (sourceEventId: string, type: string, at: string) => ({
    sourceService: ATTEMPT_SERVICE,
    sourceEventId: `${attempt._id}:${sourceEventId}${ofRound(attempt)}`,
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

/** Returns a payload of bounded size: one short line per question, without content, answer or answer key. */
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
