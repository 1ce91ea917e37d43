import { isDeepStrictEqual } from 'node:util';
import type { Progress } from '#scripts/progress.ts';
import { dataOf } from '#scripts/sandbox/gateway.ts';
import { part } from '#scripts/sandbox/parts.ts';
import { essayRubric, gradeEssay } from '#scripts/sandbox/school/essay-drafts.ts';
import { toMicro } from '#scripts/sandbox/school/grader.ts';
import type {
  AttemptDetail,
  EssayGradeHandoffRequest,
  HandoffReply,
  StartQuestion,
} from '#shared/generated/attempt.ts';
import type { EssayGradePreview, EssayGradeRequest } from '#shared/generated/classifier.ts';
import type { EssayFacts } from './report.ts';
import { asTeacher, type DemoDeps, type Sitting } from './sitting.ts';

/** Every tenth handoff is sent twice. */
const REPEAT_EVERY = 10;
/** Previews that one teacher may have in flight. */
const PREVIEWS_AT_ONCE = 4;
/** Sendings of a handoff before the demo fails; each waits for the same command. */
const MAX_SENDINGS = 6;

/** Marks every essay with text and hands the grade off. The grade is a model's preview, or the demo's own if there is no classifier. */
export async function markEssays(
  deps: DemoDeps,
  progress: Progress,
  { sittings, essay, isPreviewed }: { sittings: readonly Sitting[]; essay: StartQuestion; isPreviewed: boolean },
): Promise<EssayFacts> {
  const written = writtenEssays(sittings, essay);
  const graders = new Set<string>();
  let repeated = 0;
  const mark = async (sitting: Sitting, index: number) => {
    const handoff = isPreviewed ? await previewEssay(deps, sitting, essay) : madeUpHandoff(sitting, essay);
    await markEssay(deps, sitting, handoff, index % REPEAT_EVERY === 0);
    graders.add(`${handoff.provider} ${handoff.model}`);
    if (index % REPEAT_EVERY === 0) repeated += 1;
  };
  await part(progress, 'mark the essays', written, mark, PREVIEWS_AT_ONCE);
  const points = written.reduce((sum, { essayPoints }) => sum + (essayPoints ?? 0), 0);
  return { marked: written.length, isPreviewed, graders: [...graders], repeated, points, maxScore: essay.score };
}

/** Returns the sittings whose essay has text. */
function writtenEssays(sittings: readonly Sitting[], essay: StartQuestion): Sitting[] {
  return sittings.filter((sitting) => (sitting.answers.get(essay.questionId)?.textAnswer ?? '').trim() !== '');
}

/** Returns a handoff as the AI classifier would send it, with the demo's own grade. */
export function madeUpHandoff(
  sitting: Pick<Sitting, 'attemptId' | 'answers'>,
  essay: StartQuestion,
): EssayGradeHandoffRequest {
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

/** Sends one handoff as the AI classifier does. `twice` repeats the handoff, which must change nothing. */
async function markEssay(deps: DemoDeps, sitting: Sitting, handoff: EssayGradeHandoffRequest, twice: boolean) {
  const first = await sendHandoff(deps, sitting, handoff);
  // Only the sending that applied the grade returns `applied: true`. If its reply was lost, this reply is a replay.
  if (first.applied !== true && !first.wasRepeated)
    deps.complain(`the essay grade of ${sitting.student.id} was not applied`);
  sitting.essayPoints = handoff.score;
  if (!twice) return;
  const again = await sendHandoff(deps, sitting, handoff);
  if (again.applied !== false) deps.complain(`the essay grade of ${sitting.student.id} was applied twice`);
  if (!isDeepStrictEqual(timeless(again.attempt), timeless(first.attempt)))
    deps.complain(`the repeat of an essay grade changed the attempt of ${sitting.student.id}`);
}

function timeless(attempt: AttemptDetail): Omit<AttemptDetail, 'serverTime'> {
  const { serverTime, ...rest } = attempt;
  return rest;
}

/** Sends a handoff until it is applied. After a 202 the worker is still running it; the next call waits for the same command. */
async function sendHandoff(deps: DemoDeps, sitting: Sitting, body: EssayGradeHandoffRequest) {
  for (let sending = 1; ; sending++) {
    const reply = await deps.gateway.send({
      name: 'essay handoff',
      method: 'POST',
      path: `/v1/attempts/${sitting.attemptId}/essay-grade-handoffs`,
      headers: { 'x-internal-service': 'ai-classifier-service', 'x-internal-token': deps.internalToken },
      body,
    });
    const { applied, attempt } = dataOf<HandoffReply>('essay handoff', reply, 200, 202);
    if (reply.status === 200) return { applied, attempt, wasRepeated: sending > 1 || reply.sentTimes > 1 };
    if (sending === MAX_SENDINGS) throw new Error(`the essay of attempt ${sitting.attemptId} is still not marked`);
  }
}

/** Longest wait for a preview: the service makes up to three provider calls of one minute each. */
const TIMEOUT_MS = 200_000;

/** Requests the preview of an essay grade as the teacher. Returns its handoff unchanged. */
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
    timeoutMs: TIMEOUT_MS,
  });
  const preview = dataOf<EssayGradePreview>('essay preview', reply, 200);
  for (const fault of previewFaults(preview, body)) deps.complain(`the preview of ${student.id}'s essay ${fault}`);
  return preview.handoff;
}

/** Checks that each criterion has points within its bounds, that the grade is their sum, and that the handoff has the same grade. */
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
    ...(toMicro(score) === sum ? [] : [`has the score ${score}, but its criteria add up to ${sum / 1e6}`]),
    ...(isSame ? [] : ['has a handoff with another grade']),
  ];
}
