import { SpanKind } from '@opentelemetry/api';
import t, { type Test } from 'tap';
import type { AttemptDeps } from '#api/attempt/deps.ts';
import { attemptRoutes } from '#api/attempt/routes.ts';
import { examRoomRoutes } from '#api/exam-room/routes.ts';
import { openStreams } from '#api/http/live-stream.ts';
import { notificationRoutes } from '#api/notification/mount.ts';
import type { Route } from '#api/route.ts';
import { openLog } from '#infra/log/log.ts';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import { openIntakeStore } from '#infra/mongo/notification/intake-store.ts';
import { MAX_IN_TRACE } from '#infra/trace/spans.ts';
import { type Cause, traceIdOf } from '#shared/kernel/cause.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { testConfig, testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { captureLog } from '#testing/captured-log.ts';
import { callHttp } from '#testing/clients/call.ts';
import { inProcessDoor } from '#testing/doors/in-process-door.ts';
import { openTestDoor } from '#testing/doors/test-door.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { type RecordedSpans, recordSpans } from '#testing/recorded-spans.ts';
import { sampleAnswer, samplePaper } from '#testing/stored/sample-attempt.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { queuesOf } from './actor.ts';
import type { MakeActor } from './actors.ts';
import { deliveryActor } from './delivery/actor.ts';
import { gradeNoticesActor } from './grade-notices/actor.ts';
import { gradingActor } from './grading/actor.ts';
import { resultsReleaseActor } from './results-release/actor.ts';
import { upkeepActor } from './upkeep/actor.ts';
import type { Worker } from './worker.ts';

/** The trace of the caller. */
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const TOKEN = { INTERNAL_SERVICE_TOKEN: 'token-of-the-test' };
/** Headers of a caller that traces. */
const CALLER = {
  traceparent: `00-${TRACE}-00f067aa0ba902b7-01`,
  tracestate: 'rojo=1',
  'x-request-id': 'request-7',
};

type Hall = Awaited<ReturnType<typeof openHall>>;

/** Opens the attempt and the notification service in this process. Every ring is lost; `run` polls. */
async function openHall(t: Test) {
  const [mongo, neighbours] = [await openTestMongo(t), await openNeighbours(t)];
  const text: string[] = [];
  const logs = openLog({ level: 'info', name: 'test', destination: { write: (line) => text.push(line) } });
  const noRings = { ring: async () => true, close: async () => undefined };
  const notificationUrl = await openDoor(
    t,
    logs,
    notificationRoutes({
      mongo,
      intake: openIntakeStore(mongo),
      now: Date.now,
      doorbells: noRings,
      senderTokens: testConfig(TOKEN).notification.senderTokens,
      channels: new Set(['webhook'] as const),
      pushKey: null,
      pushHosts: [],
      unsubscribeKey: null,
      deliveryAttempts: 6,
      commandAttempts: 10,
      isAudited: false,
      notifyStreams: () => undefined,
      inboxChanges: { listen: () => () => undefined, isConnected: () => true },
      streams: openStreams(new AbortController().signal),
      log: captureLog(),
    }),
  );
  const workers: Partial<Record<Queue, readonly Worker[]>> = {};
  const deps: AttemptDeps = inProcessDoor(mongo, workers);
  const settings = { ...testConfig(TOKEN).attempt, gradingWaitMs: 0 };
  const hasty: AttemptDeps = {
    ...deps,
    settings,
    replies: { ...deps.replies, register: () => ({ settled: async () => false, cancel: () => undefined }) },
  };
  const env = { ...TOKEN, ...neighbours.env, ...neighbours.webhookEnv, NOTIFICATION_SERVICE_URL: notificationUrl };
  const workerDeps = testWorkerDeps(mongo, env);
  return {
    mongo,
    neighbours,
    attemptUrl: await openDoor(t, logs, [...attemptRoutes(hasty), ...examRoomRoutes(hasty)]),
    /** Runs the commands of these actors to their end, one actor after the other. */
    async run(...actors: MakeActor[]): Promise<void> {
      for (const makeActor of actors) {
        const actor = makeActor(workerDeps);
        const worker = testWorker(t, { ...testKernel(mongo), log: logs.log }, actor);
        const isOpen = { queue: { $in: queuesOf(actor) }, status: 'PENDING' };
        await until('no command of the actor is open', async () => {
          await worker.poll();
          await worker.idle();
          const open = MAILBOXES.map((name) => mongo.db.collection(name).countDocuments(isOpen));
          return (await Promise.all(open)).every((count) => count === 0);
        });
      }
    },
    async commands() {
      const found = MAILBOXES.map((name) => mongo.db.collection<Command>(name).find().toArray());
      return (await Promise.all(found)).flat();
    },
    /** Returns the lines of the log of doors and workers, parsed. */
    lines: (): Record<string, unknown>[] => text.map((line) => JSON.parse(line)),
  };
}

async function openDoor(t: Test, logs: ReturnType<typeof openLog>, routes: Route[]): Promise<string> {
  const { port } = await openTestDoor(t, { routes, schemas: 'product', logs });
  return `http://127.0.0.1:${port}`;
}

const PAPER = samplePaper({ questionId: 'choice' });
const RIGHT = { q0: sampleAnswer({ selected: ['a'] }) };
/** The actors from a submit to the delivery of its notices and to its report to analytics. */
const CHAIN = [gradingActor, gradeNoticesActor, deliveryActor, upkeepActor];

/** Submits an answered attempt with these headers, and returns its id. */
async function submit(t: Test, { mongo, attemptUrl }: Hall, headers: Record<string, string>): Promise<string> {
  const attempt = await storeAttempt(mongo, { answers: RIGHT }, PAPER);
  const identity = { 'x-user-id': attempt.studentId, 'x-user-role': 'STUDENT' };
  const reply = await callHttp(attemptUrl, 'POST', `/v1/attempts/${attempt._id}/submit`, {
    headers: { ...identity, ...headers },
    body: {},
  });
  t.equal(reply.status, 202, reply.text);
  return attempt._id;
}

/** Lets the receiver refuse the first call of each delivery. */
function refuseFirstDeliveries({ neighbours }: Hall): void {
  const seen = new Set<unknown>();
  neighbours.answer = ({ path, body }) => {
    if (path !== '/hook' || seen.has(body?.deliveryJobId)) return undefined;
    seen.add(body?.deliveryJobId);
    return { status: 503 };
  };
}

const { SERVER, PRODUCER, CONSUMER, CLIENT } = SpanKind;
const SUBMIT = 'POST /v1/attempts/:attemptId/submit';

t.test('a submit, its grade, its notices, their deliveries and the calls of the receiver are one trace', async (t) => {
  const hall = await openHall(t);
  const spans = await recordSpans(t);
  await submit(t, hall, CALLER);
  await hall.run(...CHAIN);

  const commands = await hall.commands();
  const queues = commands.map(({ queue }) => queue).sort();
  const [parent, student, report] = ['gradenotices:parent', 'gradenotices:student', 'upkeep:analytics'];
  t.strictSame(queues, ['delivery:webhook', 'delivery:webhook', parent, student, 'grading', report]);
  for (const { cause, queue, status } of commands) {
    t.not(status, 'PENDING', queue);
    t.match(cause, { requestId: 'request-7', tracestate: 'rojo=1' }, queue);
  }
  t.strictSame(new Set(commands.map(({ cause }) => traceIdOf(cause))), new Set([TRACE]));
  t.strictSame(new Set(spans.all().map((span) => span.spanContext().traceId)), new Set([TRACE]));

  const lines = spans.named('process delivery:webhook').map((span) => spans.line(span));
  t.equal(lines.length, 2);
  t.strictSame(
    lines.find((line) => line.some(([name]) => name === 'process gradenotices:student')),
    [
      ['process delivery:webhook', CONSUMER],
      ['create delivery:webhook', PRODUCER],
      ['POST /v1/events/notification', SERVER],
      ['POST', CLIENT],
      ['process gradenotices:student', CONSUMER],
      ['create gradenotices:student', PRODUCER],
      ['process grading', CONSUMER],
      ['create grading', PRODUCER],
      [SUBMIT, SERVER],
    ],
  );
  t.equal(spans.named(SUBMIT)[0]?.parentSpanContext?.spanId, '00f067aa0ba902b7', 'the span of the caller');
  t.match(spans.named(SUBMIT)[0]?.attributes, { 'http.route': '/v1/attempts/:attemptId/submit' });
  const hooks = hall.neighbours.calls.filter(({ path }) => path === '/hook');
  t.equal(hooks.length, 2);
  for (const { headers } of hooks) {
    t.match(headers, { 'x-request-id': 'request-7', traceparent: new RegExp(`^00-${TRACE}-`), tracestate: 'rojo=1' });
  }
  const noPerson = JSON.stringify(spans.all().map(({ attributes, events }) => [attributes, events]));
  t.notMatch(noPerson, /student-|parent-1/, 'no attribute has the id of a person');
});

t.test('the retries of a command are spans of one trace with the same parent', async (t) => {
  const hall = await openHall(t);
  const spans = await recordSpans(t);
  refuseFirstDeliveries(hall);
  await submit(t, hall, CALLER);
  await hall.run(...CHAIN);
  const runs = spans.named('process delivery:webhook');
  const again = runs.filter((span) => span.attributes['examhall.command.attempt'] === 2);
  t.equal(again.length, 2);
  for (const second of again) {
    const id = second.attributes['messaging.message.id'];
    const both = runs.filter((span) => span.attributes['messaging.message.id'] === id);
    t.equal(both.length, 2, 'two spans for two runs');
    t.equal(new Set(both.map((span) => span.parentSpanContext?.spanId)).size, 1);
    t.match(both[0], { attributes: { 'error.type': 'retried' }, status: { code: 2 } });
    t.match(both[1], { attributes: { 'examhall.command.ending': 'done' }, status: { code: 0 } });
  }
});

t.test('the trail needs no SDK: commands and neighbours get what the caller sent', async (t) => {
  const hall = await openHall(t);
  await submit(t, hall, CALLER);
  await hall.run(...CHAIN);
  const { traceparent, tracestate } = CALLER;
  const cause: Cause = { requestId: 'request-7', traceparent, tracestate };
  const commands = await hall.commands();
  t.equal(commands.length, 6);
  for (const command of commands) t.strictSame(command.cause, cause, command.queue);
  t.ok(hall.neighbours.calls.length > 3, 'profile, analytics and the webhook receiver');
  for (const { headers, path } of hall.neighbours.calls) t.match(headers, CALLER, path);
});

t.test('the line of a request, and one line for each command that it causes, have its ids', async (t) => {
  const hall = await openHall(t);
  const attemptId = await submit(t, hall, CALLER);
  await hall.run(...CHAIN);
  const ids = { requestId: 'request-7', traceId: TRACE };
  const commands = await hall.commands();
  const grading = commands.find(({ queue }) => queue === 'grading');
  const [request] = hall.lines().filter(({ msg }) => msg === 'request');
  t.match(request, { ...ids, attemptId, commandId: grading?._id, status: 202 });
  const settled = hall.lines().filter(({ msg }) => msg === 'command settled');
  t.equal(settled.length, commands.length);
  for (const { _id: commandId, queue } of commands) {
    const [line, ...more] = settled.filter((each) => each.commandId === commandId);
    t.match(line, { ...ids, queue, ending: 'done', attempt: 1, level: 30, waitMs: Number, runMs: Number });
    t.strictSame(more, []);
  }
});

t.test('each line about a retry has the ids of its request', async (t) => {
  const hall = await openHall(t);
  refuseFirstDeliveries(hall);
  await submit(t, hall, CALLER);
  await hall.run(...CHAIN);
  const retries = hall.lines().filter(({ msg }) => msg === 'command failed; retry scheduled');
  t.equal(retries.length, 2);
  for (const line of retries) {
    t.match(line, { queue: 'delivery:webhook', commandId: String, requestId: 'request-7', traceId: TRACE, attempt: 1 });
  }
});

t.test('a malformed traceparent is ignored, and the request id is followed without it', async (t) => {
  const hall = await openHall(t);
  await submit(t, hall, { 'x-request-id': 'request-8', traceparent: `00-${'0'.repeat(32)}-00f067aa0ba902b7-01` });
  await hall.run(...CHAIN);
  for (const { cause, queue } of await hall.commands()) t.strictSame(cause, { requestId: 'request-8' }, queue);
  for (const { headers } of hall.neighbours.calls) t.notOk('traceparent' in headers);
});

t.test('each notice of a large release has a trace of its own, linked to the release', async (t) => {
  const hall = await openHall(t);
  const spans = await recordSpans(t);
  const exam = { ...(await storeAttempt(hall.mongo, {}, PAPER)).exam, showResultMode: 'MANUAL' } as const;
  const many = MAX_IN_TRACE;
  for (let index = 0; index < many; index++) {
    await storeAttempt(hall.mongo, { examId: 'exam-9', exam, status: 'GRADED', answers: RIGHT, totalScore: 1 }, PAPER);
  }
  const reply = await callHttp(hall.attemptUrl, 'POST', '/v1/events/exam-results-released', {
    headers: { ...CALLER, 'x-internal-service': 'exam-service', 'x-internal-token': TOKEN.INTERNAL_SERVICE_TOKEN },
    body: {
      sourceService: 'exam-service',
      type: 'exam.results_released.v1',
      sourceEventId: 'release-1',
      examId: 'exam-9',
      releasedAt: new Date(0).toISOString(),
    },
  });
  t.ok(reply.status < 300, reply.text);
  await hall.run(resultsReleaseActor, gradeNoticesActor);

  const [release] = spans.named('process resultsrelease');
  t.equal(release?.spanContext().traceId, TRACE);
  const runs = [...spans.named('process gradenotices:student'), ...spans.named('process gradenotices:parent')];
  t.equal(runs.length, many * 2);
  const own = new Set(runs.map((span) => span.spanContext().traceId));
  t.equal(own.size, runs.length, 'a trace for each notice');
  t.notOk(own.has(TRACE));
  for (const run of runs) {
    const post = spans.all().find((span) => span.spanContext().spanId === run.parentSpanContext?.spanId);
    t.match(post?.links[0]?.context, { traceId: TRACE }, 'the post is linked to the release');
  }
  await checkOneRequest(t, hall, spans);
});

async function checkOneRequest(t: Test, hall: Hall, spans: RecordedSpans): Promise<void> {
  for (const { cause } of await hall.commands()) t.equal(cause?.requestId, 'request-7');
  const doors = spans.named('POST /v1/events/notification');
  t.ok(doors.length > 0);
  for (const { attributes } of doors) t.equal(attributes['examhall.request_id'], 'request-7');
}
