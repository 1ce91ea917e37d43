import { type Gateway, openGateway } from '#scripts/sandbox/gateway.ts';
import type { StandIns } from '#scripts/sandbox/neighbours/open-stand-ins.ts';
import { answerSheet } from '#scripts/sandbox/school/answer-sheet.ts';
import { MISPRINT, misprinted } from '#scripts/sandbox/school/paper.ts';
import type { Student } from '#scripts/sandbox/school/school.ts';
import { inParallel, type Progress, runPart } from '#scripts/start/progress.ts';
import type { StartQuestion } from '../../../clients/typescript/src/index.ts';
import { announceResults, checkInboxes, type Unchecked } from './announce-results.ts';
import { classifyPaper } from './classify-paper.ts';
import { regradeExam } from './correct-key.ts';
import { markEssays } from './mark-essays.ts';
import type { OwnCluster } from './processes.ts';
import { type Cast, castOf, endExam, type ProctorsDay, watchExam } from './proctor.ts';
import { downloadResults, verifyAudit } from './results-file.ts';
import { type DemoDeps, type Sitting, startSitting, submitUntilGraded, takeStep } from './sit-exam.ts';
import { copiedPaper, type Verified, verifySitting, verifyTeacherView } from './verify.ts';

interface DemoRun {
  url: string;
  examId: string;
  students: readonly Student[];
  questions: readonly StartQuestion[];
  seed: string;
  progress: Progress;
  /** Environment of the cluster, whose tokens the demo sends. */
  env: NodeJS.ProcessEnv;
  /** The stand-ins for the profile service and the question bank. */
  standIns: StandIns;
  /** The cluster that the demo started, which reads questions from the stand-in; null for a running one. */
  own: OwnCluster | null;
  /** Adds a worker that calls the demo for parents; returns false if the cluster's stores are unknown. null: the cluster needs none. */
  addDispatcher: (() => boolean) | null;
}

const SOCKETS = 24;
/** Students who save answers at the same time. More would only lengthen the queues, because saves take most of the time. */
const WRITERS = 8;

/** Runs the whole demo on a cluster that is ready. Returns the exit code: 0, 1 if a check failed, 2 if the notices could not all be checked. */
export async function runDemo(run: DemoRun): Promise<number> {
  const began = performance.now();
  const { progress, students, questions, examId, own, standIns } = run;
  const gateway = openGateway(run.url, run.env);
  const faults: string[] = [];
  const deps: DemoDeps = { gateway, progress, examId, complain: (fault) => void faults.push(fault) };
  const essay = questions.at(-1);
  if (essay === undefined) throw new Error('the paper is empty');
  progress.line(
    `${students.length} students sit a paper of ${questions.length} questions at ${run.url} (exam ${examId})`,
  );

  const served = await gateway.services();
  const [isPreviewed, hasInboxes] = [served.has('classifier'), served.has('notification')];
  if (!isPreviewed)
    progress.line('  the cluster serves no classifier: the paper stays unclassified, and the demo marks the essays');
  if (!hasInboxes) progress.line('  the cluster serves no notification service: the notices cannot be read');

  const bank = own === null ? null : standIns['question-bank'];
  const classified = isPreviewed
    ? await classifyPaper(deps, questions, bank)
    : '  classified      nothing; the cluster serves no classifier';

  const printed = misprinted(questions);
  const day: ProctorsDay = { acts: [], lines: [] };
  const sittings = new Array<Sitting>(students.length);
  const start = async (student: Student, index: number) => {
    sittings[index] = await startSitting(deps, student, index, printed);
  };
  await runPart(progress, 'start', students, start, SOCKETS);
  const cast = await answerAll(deps, run, sittings, day);
  const submit = (sitting: Sitting, index: number) => submitUntilGraded(deps, sitting, index);
  await runPart(progress, 'submit, all at once', cast.onTime, submit, SOCKETS);
  await endExam(deps, day, cast);
  const counted = sittings.filter(({ isVoid }) => !isVoid);
  const essays = await markEssays(deps, { sittings: counted, essay, isPreviewed });
  const delivery = { losses: own === null ? null : standIns.notification.losses, addDispatcher: run.addDispatcher };
  const announced = await announceResults(deps, sittings, hasInboxes ? delivery : null);
  await regradeExam(deps, day, sittings, { printed, right: questions });
  const { lines: notices, unchecked } = await checkInboxes(deps, announced);

  const verified: Verified[] = [];
  const paper = copiedPaper(questions);
  const verify = async (sitting: Sitting) => void verified.push(await verifySitting(deps, sitting, paper));
  await runPart(progress, 'read all again', sittings, verify, SOCKETS);
  for (const first of sittings.slice(0, 1)) await verifyTeacherView(deps, first);
  const file = await downloadResults(deps, day, verified);
  const audit = await verifyAudit(deps, day);
  if (own !== null) faults.push(...(await own.brokenPromises()));

  const acknowledged = sum(sittings.map((sitting) => sitting.savesAcknowledged));
  const answered = sum(sittings.map((sitting) => sitting.answers.size));
  const stored = sum(verified.map((found) => found.answersStored));
  const maxScore = verified[0]?.attempt.maxScore ?? 0;
  const scores = verified.flatMap(({ sitting, totalScore }) => (sitting.isVoid ? [] : [totalScore]));
  const report = [
    '',
    'Times, as the client saw them (ms)',
    ...latencyTable(gateway),
    '',
    'Counts',
    classified,
    `  attempts        ${sittings.length} started, ${verified.length} graded`,
    `  answers         ${acknowledged} saves acknowledged; ${stored} of ${answered} final answers stored unchanged`,
    ...essays,
    `  sent again      ${gateway.repeated()} requests after a missing reply`,
    ...notices,
    '',
    'The exam room',
    ...day.lines,
    ...file,
    audit,
    '',
    `Scores, of ${maxScore}`,
    ...histogram(scores, maxScore),
    '',
    ...verdict(faults, unchecked, `${((performance.now() - began) / 1_000).toFixed(1)} s`),
    ...(unchecked === 'parents' ? parentsHint(standIns.urlOf('profile')) : []),
  ];
  for (const line of report) progress.line(line);
  if (faults.length > 0) return 1;
  return unchecked === 'none' ? 0 : 2;
}

/** Lets all students answer, while the teacher looks in at half-time. Returns who plays which part. */
async function answerAll(
  deps: DemoDeps,
  { progress, questions, seed }: DemoRun,
  sittings: readonly Sitting[],
  day: ProctorsDay,
): Promise<Cast> {
  const sheets = sittings.map((sitting) => answerSheet(sitting.student, questions, seed, MISPRINT));
  const steps = sum(sheets.map((sheet) => sheet.length));
  const halfTime = Promise.withResolvers<void>();
  let taken = 0;
  progress.begin('answer', steps);
  const answering = inParallel(sittings, WRITERS, async (sitting, index) => {
    for (const step of sheets[index] ?? []) {
      await takeStep(deps, sitting, step);
      progress.step();
      taken += 1;
      if (taken >= steps / 2) halfTime.resolve();
    }
  }).then(halfTime.resolve);
  const steady = sittings.filter((_, index) => sheets[index]?.every(({ kind }) => kind === 'save'));
  const cast = castOf(sittings, steady);
  const watching = halfTime.promise.then(() => watchExam(deps, day, cast));
  await Promise.all([answering, watching]);
  const saves = sum(sittings.map((sitting) => sitting.savesAcknowledged));
  progress.end(`${saves} saves, ${sum(sittings.map((sitting) => sitting.eventsAcknowledged))} events`);
  return cast;
}

const BAR = 40;
const SHOWN_FAULTS = 20;

function latencyTable({ latencies }: Gateway): string[] {
  const row = (name: string, ...cells: string[]) =>
    `  ${[name.padEnd(16), ...cells.map((cell) => cell.padStart(8))].join(' ')}`;
  const shown = (microseconds: number) => (microseconds / 1_000).toFixed(microseconds < 10_000 ? 1 : 0);
  return [
    row('', 'count', 'p50', 'p99', 'max'),
    ...[...latencies].map(([name, times]) =>
      row(name, `${times.count}`, ...[times.percentile(50), times.percentile(99), times.max].map(shown)),
    ),
  ];
}

/** Returns one bar for each point of the score, and the mean. */
function histogram(scores: readonly number[], maxScore: number): string[] {
  const bins = Array.from({ length: Math.ceil(maxScore) }, () => 0);
  for (const score of scores) {
    const bin = Math.min(bins.length - 1, Math.floor(score));
    bins[bin] = (bins[bin] ?? 0) + 1;
  }
  const most = Math.max(1, ...bins);
  const lines = bins.map((count, bin) => {
    const label = `${bin}–${bin + 1}`.padStart(5);
    return `  ${label} ${'▇'.repeat(Math.round((count / most) * BAR))}${count === 0 ? '' : ` ${count}`}`;
  });
  const mean = sum(scores) / Math.max(1, scores.length);
  return [
    ...lines,
    `  mean ${mean.toFixed(2)}, best ${Math.max(0, ...scores)}, worst ${Math.min(maxScore, ...scores)}`,
  ];
}

const UNCHECKED: Readonly<Record<Unchecked, readonly string[]>> = {
  none: [],
  parents: ['  … but the notices to parents could not be checked'],
  all: ['  … but the notices could not be read: the cluster serves no notification service'],
};

function verdict(faults: readonly string[], unchecked: Unchecked, time: string): string[] {
  if (faults.length > 0) {
    const more = faults.length - SHOWN_FAULTS;
    return [
      `${faults.length} fault${faults.length === 1 ? '' : 's'} in ${time}:`,
      ...faults.slice(0, SHOWN_FAULTS).map((fault) => `  ✗ ${fault}`),
      ...(more > 0 ? [`  … and ${more} more`] : []),
    ];
  }
  const what = unchecked === 'all' ? 'answer, score and total' : 'answer, score, total and inbox';
  return [
    `✓ nothing lost, nothing duplicated: every ${what} was read again and compared (${time})`,
    ...UNCHECKED[unchecked],
  ];
}

function parentsHint(url: string): string[] {
  return [
    '',
    'The cluster has no profile service that knows these parents, and its stores are unknown here. The notices to parents wait in the outbox.',
    'To see them arrive, run either',
    `  PROFILE_SERVICE_URL=${url} npm start     and then the demo again, or`,
    '  npm run demo -- --own                                which starts its own cluster',
  ];
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
