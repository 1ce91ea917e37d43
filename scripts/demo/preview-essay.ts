import type { EssayGradeHandoffRequest, StartQuestion } from '#shared/generated/attempt.ts';
import type { EssayGradePreview, EssayGradeRequest } from '#shared/generated/classifier.ts';
import { essayRubric } from './essay-drafts.ts';
import { dataOf } from './gateway.ts';
import { toMicro } from './grader.ts';
import { asTeacher, type DemoDeps, type Sitting } from './sitting.ts';

/** A call of a model may be tried three times, a minute each. */
const PATIENCE_MS = 200_000;

/** The teacher has an essay graded; gives the handoff of the preview, as it stands. */
export async function previewEssay(
  deps: DemoDeps,
  { attemptId, student, answers }: Sitting,
  essay: StartQuestion,
): Promise<EssayGradeHandoffRequest> {
  const { questionId, score: maxScore } = essay;
  const body: EssayGradeRequest = {
    attemptId,
    questionId,
    maxScore,
    prompt: essay.contentText ?? essay.content ?? '',
    answerText: answers.get(questionId)?.textAnswer ?? '',
    rubric: { criteria: essayRubric(maxScore) },
  };
  const reply = await deps.gateway.send({
    name: 'essay preview',
    method: 'POST',
    path: '/v1/ai/essay-grade/preview',
    caller: asTeacher(),
    body,
    patienceMs: PATIENCE_MS,
  });
  const preview = dataOf<EssayGradePreview>('essay preview', reply, 200);
  for (const fault of previewFaults(preview, body)) deps.complain(`the preview of ${student.id}'s essay ${fault}`);
  return preview.handoff;
}

/** Every criterion of the rubric has points within its bounds, their sum is the grade, and the handoff says the same. */
function previewFaults({ score, criteria, handoff }: EssayGradePreview, asked: EssayGradeRequest): string[] {
  const sum = criteria.reduce((micro, criterion) => micro + toMicro(criterion.score), 0);
  const isWithin = asked.rubric.criteria.every(({ id, maxScore }, index) => {
    const graded = criteria[index];
    return graded?.id === id && graded.score >= 0 && graded.score <= maxScore && graded.maxScore === maxScore;
  });
  const isSame =
    handoff.questionId === asked.questionId && handoff.score === score && handoff.maxScore === asked.maxScore;
  return [
    ...(isWithin && criteria.length === asked.rubric.criteria.length ? [] : ['does not follow its rubric']),
    ...(toMicro(score) === sum ? [] : [`gives ${score}, and its criteria ${sum / 1e6}`]),
    ...(isSame ? [] : ['hands off another grade']),
  ];
}
