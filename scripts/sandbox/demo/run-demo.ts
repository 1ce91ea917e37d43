import { openGateway, openLatencies, servicesOf } from '#scripts/sandbox/gateway.ts';
import type { StandIns } from '#scripts/sandbox/neighbours/open-stand-ins.ts';
import { inParallel, part } from '#scripts/sandbox/parts.ts';
import { answerSheet } from '#scripts/sandbox/school/answer-sheet.ts';
import type { Student } from '#scripts/sandbox/school/students.ts';
import type { Progress } from '#scripts/start/progress.ts';
import type { StartQuestion } from '../../../clients/typescript/src/index.ts';
import { announceResults } from './announce-results.ts';
import { classifyPaper } from './classify-paper.ts';
import type { Delivery } from './deliver-notices.ts';
import { markEssays } from './mark-essays.ts';
import type { OwnCluster } from './processes.ts';
import { reportLines } from './report.ts';
import { startSitting, submitUntilGraded, takeStep } from './sit-exam.ts';
import type { DemoDeps, Sitting } from './sitting.ts';
import { type Verified, verifySitting, verifyTeacherView } from './verify.ts';

export interface DemoRun {
  url: string;
  examId: string;
  students: readonly Student[];
  questions: readonly StartQuestion[];
  seed: string;
  progress: Progress;
  /** Environment of the cluster, whose tokens the demo sends. */
  env: NodeJS.ProcessEnv;
  delivery: Delivery;
  /** The stand-ins for the profile service and the question bank. */
  standIns: StandIns;
  /** The cluster that the demo started, which reads questions from the stand-in; null for a running one. */
  own: OwnCluster | null;
}

/** Students who save answers at the same time. More would only lengthen the queues, because saves take most of the time. */
const WRITERS = 8;

/** Runs the whole demo on a cluster that is ready. Returns the exit code: 0, 1 if a check failed, 2 if the notices could not all be checked. */
export async function runDemo(run: DemoRun): Promise<number> {
  const began = performance.now();
  const { progress, students, questions } = run;
  const latencies = openLatencies();
  const gateway = openGateway(run.url, run.env, latencies);
  const faults: string[] = [];
  const deps: DemoDeps = {
    gateway,
    examId: run.examId,
    complain: (fault) => void faults.push(fault),
  };
  const essay = questions.at(-1);
  if (essay === undefined) throw new Error('the paper is empty');
  progress.line(
    `${students.length} students sit a paper of ${questions.length} questions at ${run.url} (exam ${run.examId})`,
  );

  const askedAt = performance.now();
  const served = await servicesOf(gateway);
  latencies.add('services', performance.now() - askedAt);
  const [hasClassifier, hasInboxes] = [served.has('classifier'), served.has('notification')];
  if (!hasClassifier)
    progress.line('  the cluster serves no classifier: the paper stays unclassified, and the demo marks the essays');
  if (!hasInboxes) progress.line('  the cluster serves no notification service: the notices cannot be read');

  const bank = run.own === null ? null : run.standIns['question-bank'];
  const classification = hasClassifier ? await classifyPaper(deps, progress, questions, bank) : null;

  const sittings = new Array<Sitting>(students.length);
  await part(progress, 'start', students, async (student, index) => {
    sittings[index] = await startSitting(deps, student, index, questions);
  });

  const sheets = sittings.map((sitting) => answerSheet(sitting.student, questions, run.seed));
  progress.begin(
    'answer',
    sheets.reduce((sum, sheet) => sum + sheet.length, 0),
  );
  await inParallel([...sittings.entries()], WRITERS, async ([index, sitting]) => {
    for (const step of sheets[index] ?? []) {
      await takeStep(deps, sitting, step);
      progress.step();
    }
  });
  const acknowledged = sum(sittings.map((sitting) => sitting.savesAcknowledged));
  progress.end(`${acknowledged} saves, ${sum(sittings.map((sitting) => sitting.eventsAcknowledged))} events`);

  await part(progress, 'submit, all at once', sittings, (sitting, index) => submitUntilGraded(deps, sitting, index));

  const essays = await markEssays(deps, progress, { sittings, essay, isPreviewed: hasClassifier });

  const notices = await announceResults(deps, progress, sittings, hasInboxes ? run.delivery : null);

  const verified: Verified[] = [];
  await part(progress, 'read all again', sittings, async (sitting) => {
    verified.push(await verifySitting(deps, sitting, questions));
  });
  const [first] = sittings;
  if (first !== undefined) await verifyTeacherView(deps, first);
  if (run.own !== null) faults.push(...(await run.own.brokenPromises()));

  const facts = {
    attempts: sittings.length,
    acknowledged,
    answered: sum(sittings.map((sitting) => sitting.answers.size)),
    stored: sum(verified.map((found) => found.answersStored)),
    graded: verified.length,
    classification,
    essays,
    repeated: gateway.repeated(),
    notices,
    scores: verified.map((found) => found.totalScore),
    maxScore: verified[0]?.maxScore ?? 0,
    seconds: (performance.now() - began) / 1_000,
    faults,
  };
  for (const line of reportLines(facts, latencies)) progress.line(line);
  if (notices?.parentsChecked === false)
    for (const line of parentsHint(run.standIns.urlOf('profile'))) progress.line(line);
  if (faults.length > 0) return 1;
  return notices?.parentsChecked === true ? 0 : 2;
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
