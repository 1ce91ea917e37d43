import { answerSheet } from './answer-sheet.ts';
import { openGateway } from './gateway.ts';
import { handIn } from './hand-in.ts';
import { inParallel } from './in-parallel.ts';
import { openLatencies } from './latencies.ts';
import { markEssay, writtenEssays } from './mark-essays.ts';
import { awaitNotices, awaitRepeats, checkNotices, expectedNotices, repeatsOf } from './notices.ts';
import { mathsPaper } from './paper.ts';
import type { Progress } from './progress.ts';
import type { Receiver } from './receiver.ts';
import { releaseResults } from './release.ts';
import { reportLines } from './report.ts';
import type { DemoDeps, Sitting } from './sitting.ts';
import { startAttempt } from './start-attempts.ts';
import type { Student } from './students.ts';
import { type Verified, verifySitting, verifyTeacherView } from './verify.ts';
import { takeStep } from './write-answers.ts';

export interface DemoRun {
  url: string;
  examId: string;
  students: readonly Student[];
  seed: string;
  receiver: Receiver;
  progress: Progress;
  internalToken: string;
  gatewayToken: string | undefined;
  /** Called once when no notice comes; true when something was done about it. */
  helpDispatch(): boolean;
}

/** Calls at once. Answering takes fewer: that is where the time goes, and more would only lengthen every queue. */
const SOCKETS = 24;
const WRITERS = 8;
const FIRST_NOTICE_MS = 4_000;
const NEXT_NOTICE_MS = 20_000;
const REPEATS_MS = 15_000;

/** The whole demo on a cluster that is ready; gives the exit code. */
export async function runDemo(run: DemoRun): Promise<number> {
  const began = performance.now();
  const { progress, receiver, students } = run;
  const latencies = openLatencies();
  const gateway = openGateway({ url: run.url, gatewayToken: run.gatewayToken, latencies, sockets: SOCKETS });
  const faults: string[] = [];
  const deps: DemoDeps = {
    gateway,
    internalToken: run.internalToken,
    examId: run.examId,
    complain: (fault) => void faults.push(fault),
  };
  const questions = mathsPaper();
  const essay = questions.at(-1);
  if (essay === undefined) throw new Error('the paper is empty');
  progress.line(
    `${students.length} students sit a paper of ${questions.length} questions at ${run.url} (exam ${run.examId})`,
  );

  const sittings = new Array<Sitting>(students.length);
  await part(progress, 'start', students, async (student, index) => {
    sittings[index] = await startAttempt(deps, student, index, questions);
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

  await part(progress, 'submit, all at once', sittings, (sitting, index) => handIn(deps, sitting, index));

  const essays = writtenEssays(sittings, essay);
  await part(progress, 'mark the essays', essays, (sitting, index) => markEssay(deps, sitting, index, essay));

  progress.begin('release the results', 1);
  await releaseResults(deps, sittings.length);
  progress.end(`${2 * sittings.length} notices queued`);

  const expected = expectedNotices(sittings);
  const noticesChecked = await deliver(run, expected.size);
  if (noticesChecked) checkNotices(deps, receiver, expected);

  const verified: Verified[] = [];
  await part(progress, 'read all again', sittings, async (sitting) => {
    verified.push(await verifySitting(deps, sitting, questions));
  });
  const [first] = sittings;
  if (first !== undefined) await verifyTeacherView(deps, first);
  gateway.close();

  const facts = {
    attempts: sittings.length,
    acknowledged,
    answered: sum(sittings.map((sitting) => sitting.answers.size)),
    stored: sum(verified.map((found) => found.answersStored)),
    graded: verified.length,
    handoffs: essays.length,
    repeated: gateway.repeated(),
    notices: {
      expected: expected.size,
      arrived: receiver.received.size,
      recipients: sum([...receiver.received.values()].map((notice) => notice.recipients.length)),
      repeats: repeatsOf(receiver),
      lostReplies: receiver.lostReplies(),
    },
    noticesChecked,
    scores: verified.map((found) => found.totalScore),
    maxScore: verified[0]?.maxScore ?? 0,
    seconds: (performance.now() - began) / 1_000,
    faults,
  };
  for (const line of reportLines(facts, latencies)) progress.line(line);
  if (!noticesChecked) for (const line of howToReceive(receiver.url)) progress.line(line);
  if (faults.length > 0) return 1;
  return noticesChecked ? 0 : 2;
}

/** One part of the demo over all of something, with its bar. */
async function part<T>(
  progress: Progress,
  title: string,
  items: readonly T[],
  work: (item: T, index: number) => Promise<void>,
): Promise<void> {
  progress.begin(title, items.length);
  await inParallel([...items.entries()], SOCKETS, async ([index, item]) => {
    await work(item, index);
    progress.step();
  });
  progress.end(`${items.length} of ${items.length}`);
}

/** Waits for the notices; where none comes at all, the cluster has nobody that delivers here, and help is asked for. */
async function deliver({ progress, receiver, helpDispatch }: DemoRun, count: number): Promise<boolean> {
  progress.begin('notices', count);
  const arrived = progress.step;
  let complete = await awaitNotices(receiver, Math.min(1, count), { patienceMs: FIRST_NOTICE_MS, arrived: () => {} });
  if (!complete && helpDispatch()) {
    progress.line('  the cluster has no notification service: adding a dispatcher that delivers to the demo');
    complete = await awaitNotices(receiver, Math.min(1, count), { patienceMs: NEXT_NOTICE_MS, arrived: () => {} });
  }
  if (!complete) {
    progress.end('none arrived');
    return false;
  }
  await awaitNotices(receiver, count, { patienceMs: NEXT_NOTICE_MS, arrived });
  await awaitRepeats(receiver, REPEATS_MS);
  progress.end(`${receiver.received.size} of ${count} arrived`);
  return true;
}

function howToReceive(url: string): string[] {
  return [
    '',
    'The cluster delivers its notices to nobody, or to somebody else; they wait in the outbox. To see them arrive, either',
    `  NOTIFICATION_SERVICE_URL=${url} PROFILE_SERVICE_URL=${url} npm start     and then the demo again, or`,
    '  npm run demo -- --own                                                 which starts a cluster of its own',
  ];
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
