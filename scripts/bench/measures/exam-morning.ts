import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { answerBody, startOverHttp, studentHeaders } from '#scripts/bench/exam.ts';
import { type BenchContext, figuresOf, type Measure, quantile, type Row } from '#scripts/bench/measure.ts';
import { type Morning, planMorning, QUICK_MORNING, WHOLE_MORNING } from '#scripts/bench/morning.ts';
import { type Arrival, highestRate, type LoopResult, openLoop, type RouteTimes } from '#scripts/bench/open-loop.ts';
import { limitOf, openShares, type Shares, sharesText } from '#scripts/bench/processor.ts';
import { openBacklog } from '#scripts/bench/queue-ages.ts';
import { type HttpClient, openStage, type Stage } from '#scripts/bench/stage.ts';
import { send } from '#testing/clients/call.ts';

const EXAM = 'bench-morning';
/** The 99th percentile (ms) that a rate must hold. */
const HELD_P99_MS = 250;
/** Length of one step of the search (s), its first rate (saves per second), and its steps after the first failure. */
const SEARCH = { seconds: 8, quickSeconds: 2, first: 50, steps: 3 };
/** Attempts over which the saves of the search are spread. */
const SEARCH_STUDENTS = 100;
/** Connections of the gateway. */
const CONNECTIONS = 512;

/**
 * Measures an exam from the first start to the last notice, at fixed times of arrival. Then searches the highest rate of saves, and what
 * limits it.
 */
export const measureExamMorning: Measure = async (context) => {
  const stage = await openStage(context, ['web', 'grading', 'gradenotices']);
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const client = gatewayOf(stage, agent);
  try {
    await sitOnce(client, `${EXAM}-warm-up`);
    // The notices of the warm-up must not count as those of the exam.
    await openBacklog(stage.mongo).drained();
    const morning = context.quick ? QUICK_MORNING : WHOLE_MORNING;
    const sat = await sitExam(context, stage, client, morning);
    // The search takes minutes; an interrupted one must not lose these figures.
    for (const { name, ours, unit } of sat)
      context.progress.line(`${name}: ${ours.p50.toFixed(1)} / ${ours.p99.toFixed(1)} ${unit}`);
    const found = await searchRate(context, stage, client);
    return [...sat, found];
  } finally {
    agent.destroy();
    await stage.close();
  }
};

/** Returns a caller with many connections, as a gateway has them: no request waits for another. */
function gatewayOf({ port }: Stage, agent: Agent): HttpClient {
  return {
    request: (method, target, headers, body) =>
      send(`http://127.0.0.1:${port}`, {
        method,
        target,
        agent,
        headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
        body,
      }),
    close: () => agent.destroy(),
  };
}

function sharesOf(context: BenchContext, { processes }: Stage): () => Shares {
  return openShares({
    'front door': processes.get('web')?.pid,
    'grading worker': processes.get('grading')?.pid,
    'notices worker': processes.get('gradenotices')?.pid,
    MongoDB: context.stores.mongodb,
    Redis: context.stores.redis,
    caller: process.pid,
  });
}

async function sitExam(context: BenchContext, stage: Stage, client: HttpClient, morning: Morning): Promise<Row[]> {
  const { students, startSeconds, everySeconds, submitSeconds } = morning;
  const backlog = openBacklog(stage.mongo);
  const endShares = sharesOf(context, stage);
  const begun = Date.now();
  const arrivals = planMorning(morning, (student) => sittingOf(client, student));
  const loop = await openLoop(arrivals, (done) => context.progress.reach(done, arrivals.length));
  const lastDueAt = begun + Math.max(...arrivals.map(({ dueMs }) => dueMs));
  const { gradedAt, announcedAt, ages, grades, notices } = await backlog.drained();
  const shares = endShares();
  const how = [
    `${students} students start within ${startSeconds} s, each saves every ${everySeconds} s, all submit in the last ${submitSeconds} s`,
    'each request has a time of its own, and its latency begins then: a slow reply delays no later request',
    `front door, two workers, stores and caller share ${shares.processors} processors; the caller was late by ${loop.callerLateMs.toFixed(0)} ms at most`,
    `processor time, in percent of one: ${sharesText(shares)}`,
  ];
  return [
    ...routeRows(loop, how),
    ageRow('exam morning: age of the oldest due grading', ages.grading, grades),
    ageRow('exam morning: age of the oldest due notice', ages.notices, notices),
    endRow('exam morning: last graded after the last submit was due', gradedAt - lastDueAt),
    endRow('exam morning: last announced after the last submit was due', announcedAt - lastDueAt),
  ];
}

/**
 * Returns the requests of one student. Each waits for the reply to the one before, as an app keeps the order of its saves. The wait is
 * part of its latency.
 */
function sittingOf(client: HttpClient, student: number, exam = EXAM) {
  const id = `student-${student}`;
  let attemptId = '';
  let before: Promise<unknown> = Promise.resolve();
  function next<Result>(request: () => Promise<Result>): Promise<Result> {
    const result = before.then(request);
    before = result.catch(() => undefined);
    return result;
  }
  async function post(route: string, body: object): Promise<void> {
    const target = `/v1/attempts/${attemptId}/${route}`;
    const reply = await client.request('POST', target, studentHeaders(id), JSON.stringify(body));
    if (reply.status !== 200) throw new Error(`${route}: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
  }
  return {
    start: () =>
      next(async () => {
        attemptId = await startOverHttp(client, exam, id);
      }),
    save: (index: number) => next(() => post('answers', answerBody(index % 40, index % 2 === 0))),
    submit: () => next(() => post('submit', { source: 'STUDENT' })),
  };
}

/** Starts, saves and submits a few times, so that connections, caches and the JIT are warm. */
async function sitOnce(client: HttpClient, exam: string): Promise<void> {
  for (let student = 0; student < 20; student++) {
    const sitting = sittingOf(client, student, exam);
    await sitting.start();
    for (let index = 0; index < 5; index++) await sitting.save(index);
    await sitting.submit();
  }
}

async function searchRate(context: BenchContext, stage: Stage, client: HttpClient): Promise<Row> {
  const seconds = context.quick ? SEARCH.quickSeconds : SEARCH.seconds;
  const sittings = Array.from({ length: SEARCH_STUDENTS }, (_, n) => sittingOf(client, n, `${EXAM}-rate`));
  for (const sitting of sittings) await sitting.start();
  let broke: { rate: number; p99: number; shares: Shares } | undefined;

  async function holds(rate: number): Promise<boolean> {
    const arrivals = Array.from({ length: rate * seconds }, (_, n): Arrival => {
      const sitting = sittings[n % sittings.length];
      return { dueMs: (n * 1_000) / rate, route: 'save', send: async () => sitting?.save(n) };
    });
    const endShares = sharesOf(context, stage);
    const { latencies, failures } = timesOf(await openLoop(arrivals), 'save');
    const p99 = failures.length > 0 ? Number.POSITIVE_INFINITY : quantile(latencies, 0.99);
    const held = p99 < HELD_P99_MS;
    if (!held) broke = { rate, p99, shares: endShares() };
    context.progress.line(`${rate} saves a second: p99 ${p99.toFixed(0)} ms, ${failures.length} failed`);
    await delay(1_000);
    return held;
  }

  const rate = await highestRate(SEARCH.first, SEARCH.steps, holds);
  return {
    name: `saves with a p99 below ${HELD_P99_MS} ms`,
    unit: '/s',
    ours: { p50: rate, p99: rate },
    reference: null,
    against: broke === undefined ? 'no limit found' : `limit: ${limitOf(broke.shares)}`,
    aim: null,
    notes: [
      `fixed times of arrival for ${seconds} s at each rate, spread over ${SEARCH_STUDENTS} open attempts`,
      ...(broke === undefined
        ? []
        : [
            `at ${broke.rate} saves a second the p99 is ${broke.p99.toFixed(0)} ms`,
            `processor time there, in percent of one: ${sharesText(broke.shares)}`,
          ]),
    ],
  };
}

function timesOf({ routes }: LoopResult, route: string): RouteTimes {
  return routes.get(route) ?? { latencies: [], failures: [] };
}

function routeRows(loop: LoopResult, how: readonly string[]): Row[] {
  return ['start', 'save', 'submit'].map((route, index) => {
    const { latencies, failures } = timesOf(loop, route);
    const slowest = `${latencies.length} answered, the slowest after ${(Math.max(0, ...latencies) / 1_000).toFixed(2)} s`;
    const [first] = failures;
    return {
      name: `exam morning: ${route}`,
      unit: 'ms',
      ours: figuresOf(latencies),
      reference: null,
      against: first === undefined ? slowest : `${slowest}; ${failures.length} failed`,
      aim: null,
      notes: [...(index === 0 ? how : []), ...(first === undefined ? [] : [`first failure: ${first.message}`])],
    };
  });
}

function ageRow(name: string, ages: readonly number[], handled: number): Row {
  const against = `${handled} handled, oldest ${(Math.max(0, ...ages) / 1_000).toFixed(2)} s`;
  return { name, unit: 'ms', ours: figuresOf(ages), reference: null, against, aim: null, notes: [] };
}

function endRow(name: string, ms: number): Row {
  const figures = { p50: ms / 1_000, p99: ms / 1_000 };
  return { name, unit: 's', ours: figures, reference: null, against: 'one run', aim: null, notes: [] };
}
