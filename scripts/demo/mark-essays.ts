import { isDeepStrictEqual } from 'node:util';
import type { Progress } from '#scripts/progress.ts';
import type {
  AttemptDetail,
  EssayGradeHandoffRequest,
  HandoffReply,
  StartQuestion,
} from '#shared/generated/attempt.ts';
import type { EssayGradePreview, EssayGradeRequest } from '#shared/generated/classifier.ts';
import { essayRubric, gradeEssay } from './essay-drafts.ts';
import { dataOf } from './gateway.ts';
import { toMicro } from './grader.ts';
import { part } from './parts.ts';
import type { EssayFacts } from './report.ts';
import { asTeacher, type DemoDeps, type Sitting } from './sitting.ts';

const REPEAT_EVERY = 10;
const LATE_TRIES = 6;

/**
 * Marks every essay that was written: by preview and handoff, or where the cluster serves no classifier with a grade of the demo's
 * own. Every tenth handoff comes twice.
 */
export async function markEssays(
  deps: DemoDeps,
  progress: Progress,
  { sittings, essay, isPreviewed }: { sittings: readonly Sitting[]; essay: StartQuestion; isPreviewed: boolean },
): Promise<EssayFacts> {
  const written = writtenEssays(sittings, essay);
  const graders = new Set<string>();
  let repeated = 0;
  await part(progress, 'mark the essays', written, async (sitting, index) => {
    const handoff = isPreviewed ? await previewEssay(deps, sitting, essay) : madeUpHandoff(sitting, essay);
    await markEssay(deps, sitting, handoff, index % REPEAT_EVERY === 0);
    graders.add(`${handoff.provider} ${handoff.model}`);
    if (index % REPEAT_EVERY === 0) repeated += 1;
  });
  const points = written.reduce((sum, { essayPoints }) => sum + (essayPoints ?? 0), 0);
  return { marked: written.length, isPreviewed, graders: [...graders], repeated, points, maxScore: essay.score };
}

/** The sittings whose student wrote an essay: the others have nothing to be marked. */
function writtenEssays(sittings: readonly Sitting[], essay: StartQuestion): Sitting[] {
  return sittings.filter((sitting) => (sitting.answers.get(essay.questionId)?.textAnswer ?? '').trim() !== '');
}

/** What the AI classifier might have said. */
function madeUpHandoff(sitting: Sitting, essay: StartQuestion): EssayGradeHandoffRequest {
  const { score, criteria, feedback } = gradeEssay(
    sitting.answers.get(essay.questionId)?.textAnswer ?? '',
    essay.score,
  );
  return {
    sourceService: 'ai-classifier-service',
    type: 'ai.essay_grade.handoff.v1',
    sourceEventId: `grade-${sitting.attemptId}`,
    questionId: essay.questionId,
    score,
    maxScore: essay.score,
    feedback,
    criteria,
    provider: 'demo',
    model: 'rubric',
    occurredAt: new Date().toISOString(),
  };
}

/** Hands off one grade as the AI classifier does, `twice` to see that the second time changes nothing. */
async function markEssay(deps: DemoDeps, sitting: Sitting, handoff: EssayGradeHandoffRequest, twice: boolean) {
  const first = await handOff(deps, sitting, handoff);
  // Only the call that brought it is told so; where that one's reply was lost, this one met a replay.
  if (first.applied !== true && !first.wasRepeated)
    deps.complain(`the essay grade of ${sitting.student.id} was not applied`);
  sitting.essayPoints = handoff.score;
  if (!twice) return;
  const again = await handOff(deps, sitting, handoff);
  if (again.applied !== false) deps.complain(`the essay grade of ${sitting.student.id} was applied twice`);
  if (!isDeepStrictEqual(timeless(again.attempt), timeless(first.attempt)))
    deps.complain(`the repeat of an essay grade changed the attempt of ${sitting.student.id}`);
}

function timeless(attempt: AttemptDetail): Omit<AttemptDetail, 'serverTime'> {
  const { serverTime, ...rest } = attempt;
  return rest;
}

/** Until it is applied: 202 says that the worker is late, and asking again waits for the same command. */
async function handOff(deps: DemoDeps, sitting: Sitting, body: EssayGradeHandoffRequest) {
  for (let tried = 1; ; tried++) {
    const reply = await deps.gateway.send({
      name: 'essay handoff',
      method: 'POST',
      path: `/v1/attempts/${sitting.attemptId}/essay-grade-handoffs`,
      headers: { 'x-internal-service': 'ai-classifier-service', 'x-internal-token': deps.internalToken },
      body,
    });
    const { applied, attempt } = dataOf<HandoffReply>('essay handoff', reply, 200, 202);
    if (reply.status === 200) return { applied, attempt, wasRepeated: tried > 1 || reply.sentTimes > 1 };
    if (tried === LATE_TRIES) throw new Error(`the essay of attempt ${sitting.attemptId} is still not marked`);
  }
}

/** A call of a model may be tried three times, a minute each. */
const PATIENCE_MS = 200_000;

/** The teacher has an essay graded; gives the handoff of the preview, as it stands. */
async function previewEssay(
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
