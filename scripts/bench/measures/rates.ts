import { setTimeout as delay } from 'node:timers/promises';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { BenchContext, Measure } from '#scripts/bench/context.ts';
import { benchPaper, startOverHttp, storedAnswers, studentHeaders } from '#scripts/bench/exam.ts';
import type { HttpClient } from '#scripts/bench/http-client.ts';
import { identifyMongodb } from '#scripts/bench/machine.ts';
import { figuresOf, type Row, ratesOf } from '#scripts/bench/row.ts';
import { openStage, type Stage } from '#scripts/bench/stage.ts';
import { answerJson, listenLocally } from '#scripts/http/local-server.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';

/** Rates of the workers when a whole cohort submits at the same moment: grades a second, then notices a second. */

const EXAM = 'bench-rates';
const POLL_MS = 100;
/** A count reads the whole backlog: more often, it would slow down what it measures. */
const COUNT_MS = 500;
const BUDGET_MS = 5_000;
const PAIRS_AT_ONCE = 100;
const QUEUES = ['gradenotices:student', 'gradenotices:parent'];
const GIVE_UP_MS = 10 * 60_000;

/** Aimed rates, per second. The stand-in in Python serves one command at a time. */
const AIMED = { graded: { SecantusDB: 60, others: 150 }, notices: 150 } as const;

/** Measures grades a second while a cohort submits over HTTP, each student over an own connection. */
export const measureSubmits: Measure = async (context) => {
  const [students, rounds] = context.quick ? [50, 1] : [200, 3];
  const stage = await openStage(context, ['web', 'grading']);
  try {
    const latencies: number[] = [];
    const rates: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const cohort = await startCohort(stage, students, `round-${round}`);
      const from = performance.now();
      await Promise.all(
        cohort.map(async ({ client, attemptId, studentId }) => {
          latencies.push(await submit(client, attemptId, studentId));
          context.progress.step(latencies.length, students * rounds);
        }),
      );
      rates.push(students / ((performance.now() - from) / 1_000));
      for (const { client } of cohort) client.close();
    }
    const latency = figuresOf(latencies);
    const { engine } = await identifyMongodb(context.mongodbUrl);
    const aimed = engine === 'SecantusDB' ? AIMED.graded.SecantusDB : AIMED.graded.others;
    const note = `a student waits ${(latency.p50 / 1_000).toFixed(2)} / ${(latency.p99 / 1_000).toFixed(2)} s for the grade`;
    return [rateRow(`${students} submits at once, grades`, rates, aimed, [note])];
  } finally {
    await stage.close();
  }
};

/** Measures notices a second: one worker announces a backlog to receivers that answer at once. */
export const measureNotices: Measure = async (context) => {
  const pairs = context.quick ? 100 : 1_000;
  const receiver = await listenLocally((_call, response) => answerJson(response, { status: 200 }));
  const profiles = await listenLocally((_call, response) =>
    answerJson(response, { status: 200, body: { data: { parentIds: ['parent-1'] } } }),
  );
  const env = { NOTIFICATION_SERVICE_URL: receiver.url, PROFILE_SERVICE_URL: profiles.url };
  const stage = await openStage(context, ['gradenotices'], env);
  try {
    const rounds = context.quick ? 1 : 3;
    const rates: number[] = [];
    for (let round = 0; round < rounds; round++) {
      await queuePairs(stage, pairs, round);
      const from = performance.now();
      await announced(stage, context, 2 * pairs);
      rates.push((2 * pairs) / ((performance.now() - from) / 1_000));
    }
    const note = 'half of them for students, half for parents, whom the worker resolves first';
    return [rateRow(`${2 * pairs} grade notices, announced`, rates, AIMED.notices, [note])];
  } finally {
    await stage.close();
    await receiver.close();
    await profiles.close();
  }
};

function rateRow(name: string, rates: readonly number[], aimed: number, notes: readonly string[]): Row {
  return {
    name,
    unit: '/s',
    ours: ratesOf(rates),
    reference: { p50: aimed, p99: aimed },
    against: 'the aimed rate',
    aim: { side: 'least', ratio: 1 },
    notes,
  };
}

interface Sitting {
  client: HttpClient;
  attemptId: string;
  studentId: string;
}

/** Starts attempts, stores forty answers in each, as forty saves would have done, and connects every student. */
export async function startCohort(stage: Stage, students: number, name: string): Promise<Sitting[]> {
  const starter = await stage.connect();
  const started: Omit<Sitting, 'client'>[] = [];
  for (let n = 0; n < students; n++) {
    const studentId = `${name}-student-${n}`;
    started.push({ studentId, attemptId: await startOverHttp(starter, EXAM, studentId) });
  }
  starter.close();
  const answers = storedAnswers(benchPaper());
  const answerBytes = Object.values(answers).reduce((sum, answer) => sum + answer.bytes, 0);
  await attempts(stage.mongo).updateMany(
    { status: 'IN_PROGRESS' },
    { $set: { answers, answerBytes, 'tally.answers': Object.keys(answers).length } },
  );
  // Connect last: the front door closes a connection on which no request comes.
  return Promise.all(started.map(async (sitting) => ({ ...sitting, client: await stage.connect() })));
}

/** Submits over HTTP and returns the wait for the grade in milliseconds. A 202 is followed by reads until the grade is there. */
export async function submit(client: HttpClient, attemptId: string, studentId: string): Promise<number> {
  const from = performance.now();
  const headers = studentHeaders(studentId);
  const path = `/v1/attempts/${attemptId}`;
  let reply = await client.request('POST', `${path}/submit`, headers, '{"source":"STUDENT"}');
  if (reply.status !== 200 && reply.status !== 202) throw new Error(`submit: ${reply.status} ${reply.body}`);
  for (;;) {
    if (JSON.parse(reply.body.toString()).data.status === 'GRADED') return performance.now() - from;
    await delay(POLL_MS);
    reply = await client.request('GET', path, headers);
  }
}

/** Queues two notices for each of `pairs` attempts, in transactions of 100 attempts as a release does. */
export async function queuePairs(stage: Stage, pairs: number, round: number): Promise<void> {
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

export async function announced(stage: Stage, context: BenchContext, notices: number): Promise<void> {
  const from = performance.now();
  for (let left = notices; left > 0; ) {
    await delay(COUNT_MS);
    // Name the queues: without them the stand-ins count by the index of dead letters, and find none.
    left = await stage.mongo.db.collection(NOTICES).countDocuments({ queue: { $in: QUEUES }, status: 'PENDING' });
    context.progress.step(notices - left, notices);
    if (performance.now() - from > GIVE_UP_MS) throw new Error('the notices were not announced');
  }
}
