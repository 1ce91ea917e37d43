import { isDeepStrictEqual } from 'node:util';
import { handOffGrade, madeUpHandoff } from '#scripts/sandbox/gateway.ts';
import { essayRubric } from '#scripts/sandbox/school/paper.ts';
import { runPart } from '#scripts/start/progress.ts';
import { sumExactly } from '#shared/kernel/decimal.ts';
import type {
  AttemptDetail,
  EssayGradeHandoffRequest,
  EssayGradePreview,
  EssayGradeRequest,
  StartQuestion,
} from '../../../clients/typescript/src/index.ts';
import { type DemoDeps, differences, type Sitting, THE_TEACHER } from './sit-exam.ts';

const REPEAT_EVERY = 10;
const PREVIEWS_AT_ONCE = 4;

/**
 * Marks every essay with text and hands the grade off. The grade is a model's preview, or the demo's own if there is no classifier.
 * Returns lines of the report.
 */
export async function markEssays(
  deps: DemoDeps,
  { sittings, essay, isPreviewed }: { sittings: readonly Sitting[]; essay: StartQuestion; isPreviewed: boolean },
): Promise<string[]> {
  const written = sittings.filter((sitting) => textOf(sitting, essay).trim() !== '');
  const graders = new Set<string>();
  const mark = async (sitting: Sitting, index: number) => {
    const handoff = isPreviewed
      ? await previewEssay(deps, sitting, essay)
      : madeUpHandoff(sitting.attemptId, textOf(sitting, essay), essay);
    await handOff(deps, sitting, handoff, index % REPEAT_EVERY === 0);
    graders.add(`${handoff.provider} ${handoff.model}`);
  };
  await runPart(deps.progress, 'mark the essays', written, mark, PREVIEWS_AT_ONCE);
  const points = written.reduce((sum, { essayPoints }) => sum + (essayPoints ?? 0), 0);
  const mean = (points / Math.max(1, written.length)).toFixed(2);
  const how = isPreviewed ? `graded by preview (${[...graders].join(', ')}) and handed off` : 'marked by the demo';
  return [
    `  essays          ${written.length} ${how}, mean ${mean} of ${essay.score}`,
    `                  ${Math.ceil(written.length / REPEAT_EVERY)} handoffs sent twice, the second without effect`,
  ];
}

function textOf({ answers }: Sitting, { questionId }: StartQuestion): string {
  return answers.get(questionId)?.textAnswer ?? '';
}

/** Sends one handoff as the AI classifier does. `twice` repeats the handoff, which must change nothing. */
async function handOff(
  { gateway, complain }: DemoDeps,
  sitting: Sitting,
  handoff: EssayGradeHandoffRequest,
  twice: boolean,
) {
  const { id } = sitting.student;
  const first = await handOffGrade(gateway, sitting.attemptId, handoff);
  // Only the request that applied the grade returns `applied: true`. If its reply was lost, this reply is a replay.
  if (first.applied !== true && !first.wasRepeated) complain(`the essay grade of ${id} was not applied`);
  sitting.essayPoints = handoff.score;
  if (!twice) return;
  const again = await handOffGrade(gateway, sitting.attemptId, handoff);
  if (again.applied !== false) complain(`the essay grade of ${id} was applied twice`);
  if (!isDeepStrictEqual(timeless(again.attempt), timeless(first.attempt)))
    complain(`the repeat of an essay grade changed the attempt of ${id}`);
}

function timeless(attempt: AttemptDetail): Omit<AttemptDetail, 'serverTime'> {
  const { serverTime, ...rest } = attempt;
  return rest;
}

/** Requests the preview of an essay grade as the teacher. Returns its handoff unchanged. */
async function previewEssay(
  { gateway, complain }: DemoDeps,
  sitting: Sitting,
  essay: StartQuestion,
): Promise<EssayGradeHandoffRequest> {
  const { questionId, score: maxScore } = essay;
  const body: EssayGradeRequest = {
    attemptId: sitting.attemptId,
    questionId,
    maxScore,
    prompt: essay.contentText ?? essay.content ?? '',
    answerText: textOf(sitting, essay),
    rubric: { criteria: essayRubric(maxScore) },
  };
  const input = { as: THE_TEACHER, body, repeatInDoubt: true };
  const preview = await gateway.client('essay preview').previewEssayGrade(input);
  for (const fault of previewFaults(preview, body)) complain(`the preview of ${sitting.student.id}'s essay: ${fault}`);
  return preview.handoff;
}

/** Checks that each criterion has points within its bounds, that the grade is their sum, and that the handoff has the same grade. */
function previewFaults({ score, criteria, handoff }: EssayGradePreview, asked: EssayGradeRequest): string[] {
  const sum = sumExactly(criteria.map((criterion) => criterion.score));
  const isGraded = criteria.every((graded) => graded.score >= 0 && graded.score <= graded.maxScore);
  const criteriaOf = (list: readonly { id: string; maxScore: number }[]) =>
    list.map(({ id, maxScore }) => ({ id, maxScore }));
  const { questionId, maxScore, rubric } = asked;
  return [
    ...(isGraded ? [] : ['it has points outside its criteria']),
    ...differences('its', { criteria: criteriaOf(criteria) }, { criteria: criteriaOf(rubric.criteria) }),
    ...(score === sum ? [] : [`it has the score ${score}, but its criteria add up to ${sum}`]),
    ...differences("its handoff's", handoff, { questionId, score, maxScore }),
  ];
}
