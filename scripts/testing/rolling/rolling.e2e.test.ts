import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { checkInvariants } from '#infra/mongo/operations/invariants.ts';
import { schemaFaults } from '#infra/mongo/schema/migrate.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { exchange } from '#testing/clients/call.ts';
import { readAsTeacher } from '#testing/clients/sitting.ts';
import { closeExam } from '#testing/stored/stored.ts';
import { gate, until, untilSlowly } from '#testing/until.ts';
import {
  type Book,
  createJob,
  generate,
  generatePaid,
  handOff,
  made,
  newBook,
  notify,
  refresh,
  register,
  releaseExam,
  rotate,
  type Sitting,
  save,
  start,
  submit,
  TEACHER,
} from './book.ts';
import { chooseRelease, type EarlierRelease, NoEarlierRelease, unpackRelease } from './earlier-release.ts';
import { openStage, type Stage } from './stage.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
const SAVES = 5;
/** Leaves the processor to the processes that start. */
const PAUSE_MS = 250;
/** Runs of recurring commands are unlimited. All other commands must end. */
const UNLIMITED = 1_000_000;
const MAILBOXES = ['commands', 'attempt_notices', 'notification_deliveries'];

t.setTimeout(0);

const earlier = earlierOrReason();
t.test(
  'an earlier release and this one share a database in every mixture, and no call fails',
  { skip: typeof earlier === 'string' ? earlier : false },
  async (t) => {
    t.setTimeout(0);
    if (typeof earlier === 'string') return;
    t.comment(`earlier release: ${earlier.name}`);
    const folder = path.join(t.testdir({}), 'earlier');
    unpackRelease(ROOT, earlier, folder);
    const stage = await openStage(t, { earlier: folder, present: ROOT });
    const book = newBook(stage.door);
    await stage.migrate('earlier');
    await stage.startDoor('earlier');
    const open = await makeEarlierStates(t, stage, book);
    const load = startLoad(book);
    const mix = async (mixture: string, prepare: () => Promise<unknown>) => {
      t.comment(mixture);
      await prepare();
      await Promise.all([workOnce(book, mixture, open), load.oneMore()]);
    };
    await mix('old door, new workers', async () => {
      await stage.migrate('present');
      await stage.startWorkers('present');
    });
    await mix('new door, old workers', async () => {
      await stage.startDoor('present');
      await stage.stopDoor('earlier');
      await stage.startWorkers('earlier');
      await stage.stopWorkers('present');
    });
    await mix('both doors, both workers', () =>
      Promise.all([stage.startWorkers('present'), stage.startDoor('earlier')]),
    );
    await mix('new release alone', async () => {
      await stage.stopDoor('earlier');
      await stage.stopWorkers('earlier');
    });
    for (const sitting of open) await submit(book, sitting);
    await load.end();
    for (const examId of book.releases) await releaseExam(book, examId);
    await checkAll(t, stage, book);
  },
);

/** Returns the earlier release, or the reason why the test cannot run here. */
function earlierOrReason(): EarlierRelease | string {
  if (process.env.FAULTS_FULL !== '1') return 'it takes a minute of processor time: set FAULTS_FULL=1';
  try {
    return chooseRelease(ROOT);
  } catch (error) {
    if (error instanceof NoEarlierRelease) return error.message;
    throw error;
  }
}

/** A student who sits exams without end. Every second sitting has an essay. */
function startLoad(book: Book) {
  const examId = newExamId();
  let isOver = false;
  let sat = 0;
  let fault: { error: unknown } | undefined;
  async function sitExams(): Promise<void> {
    for (let nth = 0; !isOver; nth++) {
      const essay = nth % 2 === 1;
      const sitting = await start(book, essay ? `${examId}-essay` : examId, { essay });
      await save(book, sitting, SAVES + 1);
      await submit(book, sitting);
      if (essay) await handOff(book, sitting, 1 + (nth % 5));
      sat += 1;
      await delay(PAUSE_MS);
    }
  }
  const sitting = sitExams().catch((error: unknown) => {
    fault = { error };
  });
  const check = () => {
    if (fault !== undefined) throw fault.error;
  };
  return {
    /** Waits until one more sitting is finished. @throws the error of a call */
    oneMore() {
      const from = sat;
      return until('one more sitting is finished', () => {
        check();
        return sat > from;
      });
    },
    async end() {
      isOver = true;
      await sitting;
      check();
      await releaseExam(book, `${examId}-essay`);
    },
  };
}

/** Work that each mixture does once: every kind of command, and the attempts that the earlier release began. */
async function workOnce(book: Book, mixture: string, open: readonly Sitting[]): Promise<void> {
  await Promise.all([
    ...open.map((sitting) => save(book, sitting, 2)),
    register(book),
    ...book.sessions.map((session) => rotate(book, session)),
    createJob(book),
    // An equal request: its questions were paid for before.
    ...[mixture, 'paid by the earlier release', 'unpaid by the earlier release'].map((topic) =>
      generatePaid(book, topic),
    ),
    notify(book),
  ]);
}

/**
 * Lets the earlier release alone create data in every state that a deployment may meet: finished, interrupted and waiting. Returns open
 * attempts. Its front door runs at the end, its workers do not, and the services around work again.
 */
async function makeEarlierStates(t: Test, stage: Stage, book: Book): Promise<Sitting[]> {
  const { model } = stage;
  const exam = newExamId();
  const [released, unreleased, early, later] = [newExamId(), newExamId(), newExamId(), newExamId()] as const;
  const begin = async (examId = exam, essay = false) => {
    const sitting = await start(book, examId, { essay });
    await save(book, sitting, SAVES);
    return sitting;
  };
  const close = async ({ attemptId }: Sitting) => closeExam(stage.mongo.db, attemptId, new Date(Date.now() - 1_000));

  t.comment('finished work');
  await stage.startWorkers('earlier');
  await submit(book, await begin());
  const [first, second] = [await begin(released, true), await begin(unreleased, true)];
  for (const sitting of [first, second]) await submit(book, sitting);
  await handOff(book, first, 4);
  await releaseExam(book, released);
  await close(await begin());
  await until('the sweep submits', async () => (await states(stage, 'attempts')).every((state) => state === 'GRADED'));
  for (let n = 0; n < 2; n++) await register(book);
  for (const session of book.sessions) await rotate(book, session);
  await createJob(book);
  await untilSlowly('the job is done', async () => (await states(stage, 'ai_jobs')).join() === 'COMPLETED');
  await generatePaid(book, 'paid by the earlier release');
  await notify(book);
  await untilSlowly('the notices are sent', async () => (await states(stage, 'attempt_notices')).every(isSent));

  t.comment('interrupted work');
  const held = model.batches() + 1;
  const release = gate();
  stage.isDown = true;
  model.before = (classifies) => (classifies && model.batches() > held ? release.opened : undefined);
  await submit(book, await begin());
  await notify(book);
  await generate(book, 'unpaid by the earlier release');
  await createJob(book);
  await until('the second batch is at the provider', () => model.batches() > held);
  const isTried = async (name: string) => (await rowsOf(stage, name)).some(isRetried);
  await untilSlowly('a notice is retried', () => isTried('attempt_notices'));
  await untilSlowly('a delivery is retried', () => isTried('notification_deliveries'));
  // The run of the job waits for the provider, so that its worker cuts it short.
  await stage.stopWorkers('earlier', { mayCut: true });

  t.comment('waiting work');
  for (let n = 0; n < 2; n++) await submit(book, await begin(), true);
  await handOff(book, second, 3, true);
  await releaseExam(book, unreleased, true);
  await submit(book, await begin(early, true), true);
  await releaseExam(book, early, true);
  await close(await begin());
  await createJob(book);
  await notify(book);
  book.releases.add(later);
  const open = [await begin(), await begin(), await begin(later, true)];
  t.strictSame([...new Set(await states(stage, 'attempts'))].sort(), ['GRADED', 'IN_PROGRESS', 'SUBMITTED']);
  t.strictSame((await states(stage, 'ai_jobs')).sort(), ['COMPLETED', 'PENDING', 'RUNNING']);
  t.strictSame((await states(stage, 'ai_generations')).sort(), ['PENDING', 'SETTLED']);
  model.before = () => undefined;
  release.open();
  stage.isDown = false;
  return open;
}

type Row = Record<string, unknown> & { _id: string };

/** Returns all rows. The caller selects: a stand-in answers a filter of the status alone from the partial index of dead commands. */
function rowsOf({ mongo }: Stage, collection: string): Promise<Row[]> {
  return mongo.db.collection<Row>(collection).find({}).toArray() as Promise<Row[]>;
}

async function states(stage: Stage, collection: string): Promise<string[]> {
  return (await rowsOf(stage, collection)).map(({ status, state }) => String(status ?? state));
}

const isSent = (state: string) => state === 'DELIVERED';
const isRetried = ({ status, attempts }: Row) => status === 'PENDING' && Number(attempts) > 0;

/** Waits until no command is left. Then compares what clients were promised with what is stored and what receivers got. */
async function checkAll(t: Test, stage: Stage, book: Book): Promise<void> {
  const commands = async () => {
    const found = await Promise.all(MAILBOXES.map((name) => rowsOf(stage, name)));
    return found.flat().filter(({ maxAttempts }) => Number(maxAttempts) < UNLIMITED);
  };
  const of =
    (...wanted: string[]) =>
    async () =>
      (await commands()).filter(({ status }) => wanted.includes(String(status)));
  await untilSlowly('every command has ended', async () => (await of('PENDING')()).length === 0);
  t.strictSame(await of('DEAD')(), [], 'no dead letter');
  t.strictSame(await schemaFaults(stage.mongo), [], 'the schema is complete');
  for (const { name, count, examples, unread } of await checkInvariants(stage.mongo, Date.now()))
    t.strictSame([count, unread], [0, null], `${name}: ${examples}`);

  const { ledger, notices } = stage.neighbours;
  for (const sitting of book.sittings) {
    const { who, attemptId, answers, saves, essay } = sitting;
    const { data } = await readAsTeacher(await book.door(), attemptId);
    const stored = new Map(data.answers.map(({ questionId, answer }) => [questionId, answer.textAnswer]));
    for (const [questionId, text] of answers) t.equal(stored.get(questionId), text, `${attemptId} ${questionId}`);
    const right = [...answers].filter(([questionId, text]) => `q${text}` === questionId).length;
    t.strictSame([data.status, data.totalScore], ['GRADED', right + (essay ?? 0)], `${attemptId} is graded`);
    const log = (await made(book, (door) => who.log(door, attemptId), 200)).data;
    const events = Array.isArray(log) ? log : (log as { events: typeof log }).events;
    t.equal(events.filter(({ type }) => type === 'SAVE_ANSWER').length, saves, `${attemptId} has each save once`);
    for (const kind of ['grade_released', 'grade_released_parent'])
      t.equal(notices.get(`${attemptId}:notification:${kind}`), 1, `${attemptId} ${kind} once`);
  }
  const deliveries = await rowsOf(stage, 'notification_deliveries');
  for (const userId of book.notified) {
    const own = deliveries.filter(({ body }) => (body as { userId?: string }).userId === userId);
    t.strictSame(
      own.map(({ _id, status }) => [status, notices.get(_id)]),
      [['SENT', 1]],
      `${userId} is notified once`,
    );
  }
  for (const id of book.jobs) {
    const read = (door: string) =>
      exchange<{ job: { status: string; progress: object } }>(`${door}/v1/ai-classifier/jobs/${id}`, {
        headers: TEACHER,
      });
    const { job } = (await made(book, read, 200)).data;
    t.match(job, { status: 'COMPLETED', progress: { total: 7, succeeded: 7 } }, `job ${id}`);
  }
  const generations = (await rowsOf(stage, 'ai_generations')).map(({ _id }) => _id);
  t.equal(generations.length, book.topics.size, 'one generation for each request');
  const keys = (kind: string) => generations.map((id) => `ai-generation:${id}:${kind}`).sort();
  t.strictSame([...ledger.debits.keys()].sort(), keys('debit'), 'each generation is paid once');
  t.strictSame([...ledger.consumed.keys()].sort(), keys('usage'));
  for (const session of book.sessions) {
    await rotate(book, session);
    t.equal((await refresh(await book.door(), session.used ?? '')).status, 401, `${session.email}: a used token`);
  }
  t.strictSame(stage.faults(), [], 'processes ended in order and logged no error');
}
