import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { answerBody, startOverHttp, studentHeaders } from '#scripts/bench/exam.ts';
import type { HttpClient } from '#scripts/bench/http-client.ts';
import { identifyMongodb } from '#scripts/bench/machine.ts';
import type { BenchContext } from '#scripts/bench/measure.ts';
import { processorMs } from '#scripts/bench/processor.ts';
import { login, refresh, register, type Tokens } from '#scripts/bench/sign-in.ts';
import { openStage, type Stage } from '#scripts/bench/stage.ts';
import { answerJson, listenLocally } from '#scripts/http/local-server.ts';
import { openProgress } from '#scripts/progress.ts';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { type MongoTap, openMongoTap } from '#testing/stores/mongo-tap.ts';
import type { Costs, MeasuredCosts, OperationCost } from './costs.ts';
import { storeAttempts } from './crowd.ts';

/** Operations of one measurement; enough that a clock tick of 10 ms is small. */
const TIMES = 300;
const AT_ONCE = 8;
const WARM_UP = 50;
const SIGN_INS = 20;
const QUESTIONS = 40;
/** Numbers of stored attempts beside which the costs are measured by default; the first of them are the costs of the operations. */
export const GROWTH: readonly number[] = [0, 10_000, 100_000, 1_000_000];
const EXAM = 'capacity';
/** A count reads the whole backlog: more often, it would slow down what it measures. */
const COUNT_MS = 500;
const BUDGET_MS = 5_000;
const PAIRS_AT_ONCE = 100;
const QUEUES = ['gradenotices:student', 'gradenotices:parent'];
const GIVE_UP_MS = 10 * 60_000;

/** Stores of a measurement, and the proxy before MongoDB that counts commands and bytes. */
interface Stores {
  context: BenchContext;
  tap: MongoTap;
  /** Process of the database. */
  database: number | undefined;
  url: string;
}

/** Runs a measurement on stores of its own, and ends them. */
export async function withStores<Result>(
  say: (line: string) => void,
  work: (stores: Stores) => Promise<Result>,
): Promise<Result> {
  const services = await startThrowAwayServices({ redis: true, say });
  const closers: (() => unknown)[] = [];
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-capacity-'));
  try {
    const url = services.mongodb?.url ?? '';
    const tap = await openMongoTap({ teardown: (close) => closers.push(close) }, url);
    const context: BenchContext = {
      mongodbUrl: tap.url,
      redisUrl: services.redis?.url ?? '',
      stores: { mongodb: services.mongodb?.pid(), redis: services.redis?.pid() },
      quick: false,
      progress: openProgress(process.stderr),
      folder,
    };
    return await work({ context, tap, database: services.mongodb?.pid(), url });
  } finally {
    for (const close of closers) close();
    await services.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Measures the costs of all operations on a stand-in of this machine, beside each of these numbers of stored attempts. */
export function measureCosts(sizes: readonly number[], say: (line: string) => void): Promise<MeasuredCosts> {
  return withStores(say, async ({ context, tap, database, url }) => {
    const stage = await openStage(context, ['web', 'grading']);
    const counter = openCounter(stage, tap, database);
    try {
      const growth: MeasuredCosts['growth'][number][] = [];
      let costs: Costs | undefined;
      for (const attempts of sizes) {
        await storeAttempts(stage.mongo, attempts);
        say(`beside ${attempts} attempts`);
        const exam = await examCosts(counter, stage, `${EXAM}-${attempts}`);
        if (costs === undefined)
          costs = { ...exam, ...(await signInCosts(counter, stage)), ...(await noticeCosts(context, tap)) };
        else growth.push({ attempts, costs: exam });
      }
      if (costs === undefined) throw new Error('nothing was measured');
      const { is } = await identifyMongodb(url);
      const [cpu] = os.cpus();
      const machine = `${cpu?.model.trim()}, ${os.availableParallelism()} cores`;
      return { on: new Date().toISOString().slice(0, 10), machine, database: is, costs, growth };
    } finally {
      await stage.close();
    }
  });
}

export type Counter = (times: number, work: () => Promise<void>) => Promise<OperationCost>;

/** Returns a function that measures what some work costs, per operation. */
export function openCounter({ processes }: Stage, tap: MongoTap, database: number | undefined): Counter {
  const workersMs = () =>
    [...processes].reduce((sum, [name, { pid }]) => (name === 'web' ? sum : sum + processorMs(pid)), 0);
  const door = processes.get('web')?.pid;
  return async (times, work) => {
    const before = { door: processorMs(door), workers: workersMs(), database: processorMs(database) };
    tap.clear();
    await work();
    const { sent, received } = tap.bytes();
    const per = (total: number) => Math.round((total / times) * 100) / 100;
    return {
      doorMs: per(processorMs(door) - before.door),
      workerMs: per(workersMs() - before.workers),
      databaseMs: per(processorMs(database) - before.database),
      commands: per(tap.commands().length),
      bytes: Math.round((sent + received) / times),
    };
  };
}

/** Measures starts, saves, submits and reads of students who sit an exam. */
async function examCosts(counter: Counter, stage: Stage, exam: string) {
  const clients = await Promise.all(Array.from({ length: AT_ONCE }, () => stage.connect()));
  const ids = new Map<string, string>();
  const students = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${exam}-${name}-${n}`);
  const startAll = (names: readonly string[]) =>
    spread(clients, names, async (client, student) => {
      ids.set(student, await startOverHttp(client, exam, student));
    });
  const call = (client: HttpClient, student: string, route: string, body?: object) =>
    expect200(
      client,
      body === undefined ? 'GET' : 'POST',
      `/v1/attempts/${ids.get(student)}${route}`,
      studentHeaders(student),
      body,
    );
  const sitting = students('sitting', TIMES);
  // The first requests of a process load and compile.
  await startAll(students('warm-up', WARM_UP));
  const start = await counter(TIMES, () => startAll(sitting));
  const rounds = Array.from({ length: QUESTIONS }, (_, index) => index);
  const save = await counter(TIMES * rounds.length, () =>
    spread(clients, sitting, async (client, student) => {
      for (const index of rounds) await call(client, student, '/answers', answerBody(index, index % 2 === 0));
    }),
  );
  const read = await counter(TIMES, () => spread(clients, sitting, (client, student) => call(client, student, '')));
  const submit = await counter(TIMES, () =>
    spread(clients, sitting, (client, student) => call(client, student, '/submit', { source: 'STUDENT' })),
  );
  for (const client of clients) client.close();
  return { start, save, read, submit };
}

/** Measures logins and refreshes. */
async function signInCosts(counter: Counter, stage: Stage) {
  const client = await stage.connect();
  const emails = Array.from({ length: SIGN_INS }, (_, n) => `student-${n}@example.edu.vn`);
  const tokens: Tokens[] = [];
  for (const email of emails) await register(client, email);
  const loggedIn = await counter(SIGN_INS, async () => {
    for (const email of emails) tokens.push(await login(client, email));
  });
  const refreshed = await counter(SIGN_INS, async () => {
    for (const { refreshToken } of tokens) await refresh(client, refreshToken);
  });
  client.close();
  return { login: loggedIn, refresh: refreshed };
}

/** Measures notices, from the outbox of a grade to the inbox of a student or parent, and pages of inboxes, on a stage of its own. */
async function noticeCosts(context: BenchContext, tap: MongoTap) {
  const profiles = await listenLocally((_call, response) =>
    answerJson(response, { status: 200, body: { data: { parentIds: ['parent-1'] } } }),
  );
  const stage = await openStage(context, ['web', 'gradenotices'], { PROFILE_SERVICE_URL: profiles.url });
  try {
    const counter = openCounter(stage, tap, context.stores.mongodb);
    await queuePairs(stage, WARM_UP, 0);
    await announced(stage, context, 2 * WARM_UP);
    await queuePairs(stage, TIMES, 1);
    const notice = await counter(2 * TIMES, () => announced(stage, context, 2 * TIMES));
    const client = await stage.connect();
    const inbox = await counter(TIMES, async () => {
      for (let n = 0; n < TIMES; n++) {
        const headers = { 'X-Actor-Id': `student-${n}`, 'X-Actor-Role': 'STUDENT' };
        await expect200(client, 'GET', '/v1/notifications', headers);
      }
    });
    client.close();
    return { notice, inbox };
  } finally {
    await stage.close();
    await profiles.close();
  }
}

/** Lets each client take the next student as soon as its last one is done. */
async function spread(
  clients: readonly HttpClient[],
  students: readonly string[],
  work: (client: HttpClient, student: string) => Promise<void>,
): Promise<void> {
  const queue = students.values();
  await Promise.all(
    clients.map(async (client) => {
      for (const student of queue) await work(client, student);
    }),
  );
}

/** Sends a request. Throws unless the reply is 200. */
export async function expect200(
  client: HttpClient,
  method: 'GET' | 'POST',
  target: string,
  headers: Record<string, string>,
  body?: object,
): Promise<void> {
  const reply = await client.request(method, target, headers, body === undefined ? undefined : JSON.stringify(body));
  if (reply.status !== 200)
    throw new Error(`${method} ${target}: ${reply.status} ${reply.body.toString().slice(0, 300)}`);
}

/** Queues two notices for each of `pairs` attempts, in transactions of 100 attempts as a release does. */
async function queuePairs(stage: Stage, pairs: number, round: number): Promise<void> {
  for (let from = 0; from < pairs; from += PAIRS_AT_ONCE) {
    const notices = Array.from({ length: Math.min(PAIRS_AT_ONCE, pairs - from) }, (_, index) =>
      gradeNotices(
        {
          _id: `attempt-${round}-${from + index}`,
          examId: EXAM,
          organizationId: 'bench-school',
          studentId: `student-${from + index}`,
          exam: { title: 'Toán 12' } as Attempt['exam'],
        },
        { releaseEventId: null, notBefore: null },
      ),
    ).flat();
    await inTransaction(stage.mongo, BUDGET_MS, (session) =>
      queueNotices(stage.mongo, session, notices, { maxAttempts: 30, now: Date.now() }),
    );
  }
}

async function announced(stage: Stage, context: BenchContext, notices: number): Promise<void> {
  const from = performance.now();
  for (let left = notices; left > 0; ) {
    await delay(COUNT_MS);
    // Name the queues: without them the stand-ins count by the index of dead letters, and find none.
    left = await stage.mongo.db.collection(NOTICES).countDocuments({ queue: { $in: QUEUES }, status: 'PENDING' });
    context.progress.reach(notices - left, notices);
    if (performance.now() - from > GIVE_UP_MS) throw new Error('the notices were not announced');
  }
}
