import { setTimeout as delay } from 'node:timers/promises';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { closeExam } from '#testing/stored/stored.ts';
import { until } from '#testing/until.ts';
import {
  type Book,
  broadcast,
  createJob,
  generate,
  generatePaid,
  handOff,
  notify,
  register,
  releaseExam,
  rotate,
  type Sitting,
  save,
  start,
  submit,
} from './book.ts';
import type { Stage } from './stage.ts';

/** One more than a transaction holds, so that its rows are staged. */
const LARGE_FAN_OUT = 1_001;
const SAVES = 5;
const WAIT_MS = 60_000;

/** Open attempts of the earlier release, which later phases continue. */
export interface EarlierStates {
  open: Sitting[];
  /** Names of the states that exist now, with their counts, for the report. */
  states: [string, number][];
}

/**
 * Lets the earlier release alone create data in every state that a deployment may meet. `say` receives each part. At the end its front door
 * runs, its workers do not, and the services around work again.
 */
export async function makeEarlierStates(stage: Stage, book: Book, say: (part: string) => void): Promise<EarlierStates> {
  const { mongo, outside } = stage;
  const door = stage.door('earlier');
  const exam = newExamId();
  const [released, unreleased, early] = [newExamId(), newExamId(), newExamId()];

  say('finished work');
  await stage.startWorkers('earlier');
  const begin = async (examId: string, essay = false) => {
    const sitting = await start(book, door, examId, { essay });
    for (let nth = 0; nth < SAVES; nth++) await save(door, sitting, nth);
    return sitting;
  };
  const graded = await begin(exam);
  await submit(door, graded);
  for (const examId of [released, unreleased]) {
    const sitting = await begin(examId, true);
    await submit(door, sitting);
    if (examId === released) await handOff(door, sitting, 4);
  }
  await releaseExam(book, door, released);
  const overdue = await begin(exam);
  await closeExam(mongo.db, overdue.attemptId, new Date(Date.now() - 1_000));
  await waitFor(async () => (await statusOf(stage, overdue)) === 'GRADED', 'the overdue sweep submits');
  await register(book, door);
  await register(book, door);
  for (const session of book.sessions) await rotate(door, session);
  const done = await createJob(book, door);
  await waitFor(async () => (await jobOf(stage, done))?.status === 'COMPLETED', 'the job is completed');
  await generatePaid(book, door, 'paid by the earlier release');
  await notify(book, door);

  say('interrupted work');
  await waitFor(async () => (await waitingNotices(stage)) === 0, 'the notices are delivered');
  outside.isDown = true;
  const batches = () => outside.modelCalls.filter(({ classifies }) => classifies).length;
  const first = batches() + 1;
  outside.holds = ({ classifies }) => classifies && batches() > first;
  await submit(door, await begin(exam));
  await notify(book, door);
  await generate(book, door, 'unpaid by the earlier release');
  const job = await createJob(book, door);
  await waitFor(async () => (await jobOf(stage, job))?.counts?.batchesDone === 1, 'a batch is done');
  await waitFor(() => batches() > first, 'the next batch is at the provider');
  await waitFor(async () => (await retrying(stage, 'attempt_notices')) >= 2, 'notices are retried');
  await waitFor(async () => (await retrying(stage, 'notification_deliveries')) >= 1, 'a delivery is retried');
  // The run of the job waits for the provider, so that its worker cuts it short.
  await stage.stopWorkers('earlier', { mayCut: true });

  say('waiting work');
  for (let n = 0; n < 2; n++) await submit(door, await begin(exam), true);
  const essays = book.sittings.find(({ plan }) => plan.examId === unreleased);
  if (essays !== undefined) await handOff(door, essays, 3, true);
  await releaseExam(book, door, unreleased, true);
  const beforeGrade = await begin(early, true);
  await submit(door, beforeGrade, true);
  await releaseExam(book, door, early, true);
  const late = await begin(exam);
  await closeExam(mongo.db, late.attemptId, new Date(Date.now() - 1_000));
  await createJob(book, door);
  await notify(book, door);
  // An exam of its own: a release does not bind attempts that start after it.
  const later = newExamId();
  book.releases.set(later, `release-${later}`);
  const open = [await begin(exam), await begin(exam), await begin(later, true)];

  say('work of a killed front door');
  outside.holds = ({ classifies }) => !classifies;
  await stage.startDoor('earlier', { slot: 2, isHidden: true, env: { NOTIFICATION_CHANNELS: '' } });
  const doomed = stage.door('earlier', 2);
  await broadcast(book, doomed, LARGE_FAN_OUT);
  const asked = outside.modelCalls.length;
  const held = generate(book, doomed, 'held by a killed front door').catch(() => undefined);
  await waitFor(() => outside.modelCalls.length > asked, 'the generation is at the provider');
  await stage.killDoor('earlier', 2);
  await held;
  outside.holds = () => false;
  outside.isDown = false;
  return { open, states: await countStates(stage, book) };
}

const waitFor = (isSo: () => boolean | Promise<boolean>, what: string) =>
  until(
    what,
    async () => {
      const seen = await isSo();
      if (!seen) await delay(50);
      return seen;
    },
    WAIT_MS,
  );

async function statusOf({ mongo }: Stage, { attemptId }: Sitting): Promise<unknown> {
  return (await mongo.db.collection<{ _id: string; status: string }>('attempts').findOne({ _id: attemptId }))?.status;
}

function jobOf({ mongo }: Stage, id: string) {
  return mongo.db
    .collection<{ _id: string; status: string; counts: { batchesDone: number } }>('ai_jobs')
    .findOne({ _id: id });
}

/** Returns the number of notices that wait. */
async function waitingNotices(stage: Stage): Promise<number> {
  return (await rowsOf(stage, 'attempt_notices')).filter(({ status }) => status === 'PENDING').length;
}

/** Returns the number of commands that wait for their next attempt. */
async function retrying(stage: Stage, mailbox: string): Promise<number> {
  const rows = await rowsOf(stage, mailbox);
  return rows.filter(({ status, attempts }) => status === 'PENDING' && attempts > 0).length;
}

/** Counts what the present release will find. */
async function countStates(stage: Stage, book: Book): Promise<[string, number][]> {
  const names = ['attempts', 'commands', 'attempt_notices', 'notification_deliveries', 'ai_jobs', 'ai_generations'];
  const found = await Promise.all(names.map(async (name) => [name, await rowsOf(stage, name)] as const));
  const count = (collection: string, filter: Partial<StoredRow>) =>
    (new Map(found).get(collection) ?? []).filter((row) =>
      Object.entries(filter).every(([field, value]) => row[field as keyof StoredRow] === value),
    ).length;
  const pending = (queue: string) => count('commands', { queue, status: 'PENDING' });
  return [
    ['attempts in progress', count('attempts', { status: 'IN_PROGRESS' })],
    ['submitted attempts', count('attempts', { status: 'SUBMITTED' })],
    ['graded attempts', count('attempts', { status: 'GRADED' })],
    ['handoffs', pending('essayhandoff')],
    ['releases', pending('resultsrelease')],
    ['notices', count('attempt_notices', { status: 'PENDING' })],
    ['deliveries', count('notification_deliveries', { status: 'PENDING' })],
    ['running jobs', count('ai_jobs', { status: 'RUNNING' })],
    ['waiting jobs', count('ai_jobs', { status: 'PENDING' })],
    ['unpaid generations', count('ai_generations', { state: 'PENDING' })],
    ['held generations', count('ai_generations', { state: 'MAKING' })],
    ['fan-outs', pending('upkeep:fanouts')],
    ['sessions', book.sessions.length],
  ];
}

interface StoredRow {
  queue: string;
  status: string;
  state: string;
  attempts: number;
}

/**
 * Returns all rows of a collection. The caller selects them, because the stand-in in Rust answers a filter of the status alone from the
 * partial index of dead commands.
 */
function rowsOf({ mongo }: Stage, collection: string): Promise<StoredRow[]> {
  return mongo.db.collection<StoredRow>(collection).find({}).toArray() as Promise<StoredRow[]>;
}
