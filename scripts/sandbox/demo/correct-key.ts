import { MISPRINT } from '#scripts/sandbox/school/paper.ts';
import type {
  Regrade,
  RegradeRequest,
  RegradeRow,
  StartQuestion,
  Statistics,
} from '../../../clients/typescript/src/index.ts';
import { done, type ProctorsDay, until } from './proctor.ts';
import { type DemoDeps, type Sitting, THE_TEACHER } from './sit-exam.ts';
import { copiedPaper, gradeSitting, statisticsFaults, verifyRegrade } from './verify.ts';

/** Time after which statistics have met every earlier act. */
const FRESH_MS = 5_000;

/** Finds the question whose key is wrong by the statistics, and corrects it by a regrade. */
export async function regradeExam(
  deps: DemoDeps,
  day: ProctorsDay,
  sittings: readonly Sitting[],
  papers: { printed: readonly StartQuestion[]; right: readonly StartQuestion[] },
): Promise<void> {
  const { gateway, examId, progress, complain } = deps;
  const [printed, right] = [copiedPaper(papers.printed), copiedPaper(papers.right)];
  progress.begin('correct the wrong key', sittings.length);
  const readStatistics = () => gateway.client('statistics').readStatistics({ examId, as: THE_TEACHER });
  const statistics = await readStatistics();
  statisticsFaults(statistics, sittings, printed).forEach(complain);

  const reason = 'Đáp án in sai, tổ Toán đã giải lại';
  const answerKey = papers.right.find(({ questionId }) => questionId === MISPRINT.questionId)?.answerKey ?? {};
  const change = { questionId: MISPRINT.questionId, answerKey };
  const preview = await previewed(deps, { changes: [change], reason });
  day.acts.push({ action: 'exam.regrade', subject: examId, reason });
  const rows = await readRows(deps, preview);
  const changed = verifyRegrade(deps, { preview, rows }, sittings, (sitting) => ({
    before: gradeSitting(printed, sitting).totals.totalScore,
    after: gradeSitting(right, sitting).totals.totalScore,
  }));

  const approval = 'Tổ Toán đã duyệt';
  const apply = { examId, regradeId: preview.id, as: THE_TEACHER, body: { reason: approval } };
  for (const turn of ['first', 'second']) {
    const { regrade } = await done(`the regrade`, gateway.client('teacher acts').applyRegrade(apply));
    if (regrade.state !== 'APPLIED') complain(`the ${turn} apply left the regrade ${regrade.state}`);
  }
  day.acts.push({ action: 'exam.regrade-applied', subject: examId, reason: approval });
  for (const sitting of changed) {
    sitting.regradeId = preview.id;
    sitting.actsLogged += 1;
  }

  // The viewers of one page share a count for two seconds.
  const freshBy = performance.now() + FRESH_MS;
  const corrected = await until('the new statistics', async () => {
    const now = await readStatistics();
    return statisticsFaults(now, sittings, right).length === 0 || performance.now() > freshBy ? now : null;
  });
  statisticsFaults(corrected, sittings, right).forEach(complain);
  const { attempts, changed: count, up, down } = preview;
  progress.end(`${count} of ${attempts} results change: ${up} up, ${down} down`);
  const key = `${MISPRINT.optionId} → ${answerKey.correctOptionIds?.join()}`;
  const wrong = corrected.questions.find(({ questionId }) => questionId === MISPRINT.questionId);
  const { mean, alpha } = statistics;
  day.lines.push(
    `  statistics      ${statistics.attempts} attempts, mean ${shown(mean)}, reliability ${shown(alpha)}`,
    `                  discrimination below 0, good students miss them: ${suspectsOf(statistics)}`,
    `  wrong key       the teacher solves them again: ${key} in question ${numberOf(wrong)}`,
    `  regrade         ${count} of ${attempts} results change: ${up} up, ${down} down`,
    `                  applied twice, in effect once; the discrimination of the question is ${shown(wrong?.discrimination)} now`,
  );
}

function shown(value: number | null | undefined): string {
  return value?.toFixed(2) ?? 'unknown below ten attempts';
}

function numberOf(question: { orderIndex: number } | undefined): number {
  return (question?.orderIndex ?? 0) + 1;
}

/** Questions that the report names at most. */
const NAMED = 4;

/** Returns the questions that the statistics flag, the worst first. */
function suspectsOf({ questions }: Statistics): string {
  const flagged = questions
    .filter(({ flags }) => flags.includes('NEGATIVE_DISCRIMINATION'))
    .toSorted((one, other) => (one.discrimination ?? 0) - (other.discrimination ?? 0))
    .map((question) => `${numberOf(question)} (${shown(question.discrimination)})`);
  const named = flagged.length > NAMED ? [...flagged.slice(0, NAMED), '…'] : flagged;
  return named.length === 0 ? 'no question' : named.join(', ');
}

async function previewed({ gateway, examId }: DemoDeps, body: RegradeRequest): Promise<Regrade> {
  const client = gateway.client('regrade');
  const { regrade } = await client.createRegrade({ examId, as: THE_TEACHER, body });
  return until('the preview', async () => {
    const now = regrade.state === 'PREVIEW' ? regrade : await readAgain();
    return now.state === 'PREVIEW' ? now : null;
  });

  async function readAgain(): Promise<Regrade> {
    return (await client.readRegrade({ examId, regradeId: regrade.id, as: THE_TEACHER })).regrade;
  }
}

async function readRows({ gateway, examId }: DemoDeps, { id: regradeId }: Regrade): Promise<RegradeRow[]> {
  const rows: RegradeRow[] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const query = { limit: 500, ...(after === undefined ? {} : { after }) };
    const page = await gateway.client('regrade').listRegradeRows({ examId, regradeId, as: THE_TEACHER, query });
    rows.push(...page.items);
    after = page.next;
  }
  return rows;
}
