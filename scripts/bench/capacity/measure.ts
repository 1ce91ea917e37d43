import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { answerBody, startOverHttp, studentHeaders } from '#scripts/bench/exam.ts';
import { identifyMongodb } from '#scripts/bench/machine.ts';
import type { BenchContext } from '#scripts/bench/measure.ts';
import { processorMs } from '#scripts/bench/processor.ts';
import { login, refresh, register, type Tokens } from '#scripts/bench/sign-in.ts';
import { type HttpClient, openStage, type Stage } from '#scripts/bench/stage.ts';
import type { MeasuredCosts, OperationCost } from '#scripts/generate/capacity/costs.ts';
import { answerJson, listenLocally } from '#scripts/sandbox/local-server.ts';
import { openProgress } from '#scripts/start/progress.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { type MongoTap, openMongoTap } from '#testing/stores/mongo-tap.ts';
import { startThrowAwayServices } from '#testing/stores/throw-away.ts';

/** Operations of one measurement; enough that a clock tick of 10 ms is small. */
const TIMES = 300;
const AT_ONCE = 8;
const WARM_UP = 50;
const SIGN_INS = 20;
const QUESTIONS = 40;
const EXAM = 'capacity';
/** A count reads the whole backlog: more often, it would slow down what it measures. */
const COUNT_MS = 500;
const GIVE_UP_MS = 10 * 60_000;

type Counter = (times: number, work: () => Promise<unknown>) => Promise<OperationCost>;

/** Measures the costs of all operations on stores of its own, through a proxy that counts commands and bytes. */
export async function measureCosts(say: (line: string) => void): Promise<MeasuredCosts> {
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
    const is = await identifyMongodb(url);
    const machine = `${os.cpus()[0]?.model.trim()}, ${os.availableParallelism()} cores`;
    const exam = await onStage(context, tap, ['web', 'grading'], async (stage, counter) => ({
      ...(await examCosts(counter, stage)),
      ...(await signInCosts(counter, stage)),
    }));
    const notices = await noticeCosts(context, tap);
    return { on: new Date().toISOString().slice(0, 10), machine, database: is, costs: { ...exam, ...notices } };
  } finally {
    for (const close of closers) close();
    await services.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs `work` on a new stage, with a function that measures what some work costs, per operation. */
async function onStage<Result>(
  context: BenchContext,
  tap: MongoTap,
  names: readonly string[],
  work: (stage: Stage, counter: Counter) => Promise<Result>,
  env: NodeJS.ProcessEnv = {},
): Promise<Result> {
  const stage = await openStage(context, names, env);
  const spent = () => {
    const workers = [...stage.processes].filter(([name]) => name !== 'web');
    return {
      doorMs: processorMs(stage.processes.get('web')?.pid),
      workerMs: workers.reduce((sum, [, { pid }]) => sum + processorMs(pid), 0),
      databaseMs: processorMs(context.stores.mongodb),
    };
  };
  const counter: Counter = async (times, work) => {
    const before = spent();
    tap.clear();
    await work();
    const [after, { sent, received }] = [spent(), tap.bytes()];
    const per = (total: number) => Math.round((total / times) * 100) / 100;
    return {
      doorMs: per(after.doorMs - before.doorMs),
      workerMs: per(after.workerMs - before.workerMs),
      databaseMs: per(after.databaseMs - before.databaseMs),
      commands: per(tap.commands().length),
      bytes: Math.round((sent + received) / times),
    };
  };
  try {
    return await work(stage, counter);
  } finally {
    await stage.close();
  }
}

/** Measures starts, saves, reads and submits of students who sit an exam, eight at a time. */
async function examCosts(counter: Counter, stage: Stage) {
  const clients = await Promise.all(Array.from({ length: AT_ONCE }, () => stage.connect()));
  const ids = new Map<string, string>();
  const each = (students: readonly string[], work: (client: HttpClient, student: string) => Promise<void>) => {
    // A client takes the next student as soon as its last one is done.
    const queue = students.values();
    return Promise.all(
      clients.map(async (client) => {
        for (const student of queue) await work(client, student);
      }),
    );
  };
  const students = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}-${n}`);
  const start = async (client: HttpClient, student: string) => {
    ids.set(student, await startOverHttp(client, EXAM, student));
  };
  const call = (client: HttpClient, student: string, route: string, body?: object) =>
    expect200(client, `/v1/attempts/${ids.get(student)}${route}`, studentHeaders(student), body);
  const saveAll = async (client: HttpClient, student: string) => {
    for (let n = 0; n < QUESTIONS; n++) await call(client, student, '/answers', answerBody(n, n % 2 === 0));
  };
  const sitting = students('sitting', TIMES);
  // The first requests of a process load and compile.
  await each(students('warm-up', WARM_UP), start);
  const costs = {
    start: await counter(TIMES, () => each(sitting, start)),
    save: await counter(TIMES * QUESTIONS, () => each(sitting, saveAll)),
    read: await counter(TIMES, () => each(sitting, (client, student) => call(client, student, ''))),
    submit: await counter(TIMES, () =>
      each(sitting, (client, student) => call(client, student, '/submit', { source: 'STUDENT' })),
    ),
  };
  for (const client of clients) client.close();
  return costs;
}

/** Measures logins and refreshes. */
async function signInCosts(counter: Counter, stage: Stage) {
  const client = await stage.connect();
  const emails = Array.from({ length: SIGN_INS }, (_, n) => `student-${n}@example.edu.vn`);
  const tokens: Tokens[] = [];
  for (const email of emails) await register(client, email);
  const costs = {
    login: await counter(SIGN_INS, async () => {
      for (const email of emails) tokens.push(await login(client, email));
    }),
    refresh: await counter(SIGN_INS, async () => {
      for (const { refreshToken } of tokens) await refresh(client, refreshToken);
    }),
  };
  client.close();
  return costs;
}

/** Measures notices, from the outbox of a grade to the inbox of a student or parent, and pages of inboxes. */
async function noticeCosts(context: BenchContext, tap: MongoTap) {
  const profiles = await listenLocally((_call, response) =>
    answerJson(response, { status: 200, body: { data: { parentIds: ['parent-1'] } } }),
  );
  const announce = async (stage: Stage, counter: Counter) => {
    await queuePairs(stage, WARM_UP, 'warm-up');
    await announced(stage);
    await queuePairs(stage, TIMES, 'student');
    const notice = await counter(2 * TIMES, () => announced(stage));
    const client = await stage.connect();
    const inbox = await counter(TIMES, async () => {
      for (let n = 0; n < TIMES; n++) {
        await expect200(client, '/v1/notifications', { 'X-Actor-Id': `student-${n}`, 'X-Actor-Role': 'STUDENT' });
      }
    });
    client.close();
    return { notice, inbox };
  };
  try {
    return await onStage(context, tap, ['web', 'gradenotices'], announce, { PROFILE_SERVICE_URL: profiles.url });
  } finally {
    await profiles.close();
  }
}

/** Queues a notice for the student and one for the parents of each attempt, as its grade does. */
async function queuePairs({ mongo }: Stage, pairs: number, name: string): Promise<void> {
  for (let n = 0; n < pairs; n++) {
    const exam = { title: 'Toán 12' } as Attempt['exam'];
    const attempt = {
      _id: `attempt-${name}-${n}`,
      examId: EXAM,
      organizationId: null,
      studentId: `${name}-${n}`,
      exam,
    };
    const notices = gradeNotices(attempt, { releaseEventId: null, notBefore: null });
    await inTransaction(mongo, 5_000, (session) =>
      queueNotices(mongo, session, notices, { maxAttempts: 30, now: Date.now() }),
    );
  }
}

/** Waits until no notice is due. */
async function announced({ mongo }: Stage): Promise<void> {
  const giveUpAt = performance.now() + GIVE_UP_MS;
  // Name the queues: without them the stand-ins count by the index of dead letters, and find none.
  const waiting = { queue: { $in: ['gradenotices:student', 'gradenotices:parent'] }, status: 'PENDING' };
  while ((await mongo.db.collection(NOTICES).countDocuments(waiting)) > 0) {
    if (performance.now() > giveUpAt) throw new Error('the notices were not announced');
    await delay(COUNT_MS);
  }
}

/** Sends a GET, or a POST of this body. Throws unless the reply is 200. */
async function expect200(client: HttpClient, target: string, headers: Record<string, string>, body?: object) {
  const [method, text] = body === undefined ? ['GET'] : ['POST', JSON.stringify(body)];
  const reply = await client.request(method ?? 'GET', target, headers, text);
  if (reply.status !== 200)
    throw new Error(`${method} ${target}: ${reply.status} ${reply.body.toString().slice(0, 300)}`);
}
