import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { BACKGROUND_CONCURRENCY } from '#infra/process/background.ts';
import { answerJson, openReceiver } from '#scripts/sandbox/local-server.ts';
import { freePort } from '#scripts/start/services/port.ts';
import { attemptClient } from '#testing/clients/attempt-client.ts';
import { authClient, newEmail } from '#testing/clients/auth-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openMongoTap } from '#testing/stores/mongo-tap.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { type Sample, scrapeAll, sumOf } from './scrape.ts';

// Causes faults inside one front door and three workers. Each must move the metrics of its alerts (ops/prometheus/rules.yml).

/** While true, the notification service keeps each call until `letGo`. */
let isHolding = false;
const kept: (() => void)[] = [];
const notifications = await openReceiver(t, async (_, response) => {
  if (isHolding) await new Promise<void>((resolve) => kept.push(resolve));
  answerJson(response, { status: 201 });
});
/** Audit service and model provider. */
const broken = await openReceiver(t, (_, response) => answerJson(response, { status: 500 }));
/** Receiver of events that exists no longer. */
const gone = await openReceiver(t, (_, response) => answerJson(response, { status: 410 }));

/** Pieces of background work that may wait in the worker of grades: few, so that a few grades are too many. */
const BACKGROUND_WAITING = 4;

const tap = await openMongoTap(t, requiredEnv('MONGODB_URL'));
const gradingTap = await openMongoTap(t, requiredEnv('MONGODB_URL'));
const ports = { grading: await freePort(), gradenotices: await freePort(), upkeep: await freePort() };
const cluster = await startCluster(t, {
  inside: true,
  workers: ['grading', 'gradenotices', 'upkeep'],
  envOf: {
    web1: {
      MONGODB_URL: tap.url,
      AUDIT_SERVICE_URL: broken,
      // Connections from this machine then count for an address.
      TRUSTED_PROXIES: '203.0.113.1',
      MAX_CONNECTIONS: '1024',
      AI_CLASSIFIER_PROVIDER: 'local',
      AI_CLASSIFIER_BASE_URL: broken,
      AI_CLASSIFIER_MAX_RETRIES: '0',
      AI_CLASSIFIER_CIRCUIT_FAILURES: '1',
    },
    grading: {
      MONGODB_URL: gradingTap.url,
      METRICS_PORT: String(ports.grading),
      WORKER_BACKGROUND_WAITING: `${BACKGROUND_WAITING}`,
    },
    gradenotices: {
      METRICS_PORT: String(ports.gradenotices),
      NOTIFICATION_SERVICE_URL: notifications,
      WORKER_CONCURRENCY: '1',
    },
    upkeep: { METRICS_PORT: String(ports.upkeep), AUDIT_SERVICE_URL: broken },
  },
});
const [client, auth] = [await attemptClient(cluster), await authClient(cluster)];

const scrape = () =>
  scrapeAll({
    web1: cluster.door().url,
    ...Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, `http://127.0.0.1:${port}`])),
  });

/** Tests that the fault of alerts moves their metrics: a scrape does not show it before, and shows it afterwards. */
function fault(
  t: Test,
  alerts: readonly string[],
  cause: () => Promise<unknown>,
  isSeen: (samples: readonly Sample[]) => boolean,
): Promise<unknown> {
  return t.test(`the fault of ${alerts.join(', ')} is in a scrape`, async (t) => {
    t.notOk(isSeen(await scrape()), 'calm');
    await cause();
    await until('a scrape shows it', async () => isSeen(await scrape()));
  });
}

/** A student sits an exam: a save, and a submit with its grade and its notices. */
async function sitting(): Promise<void> {
  const { student, id } = await client.sitting();
  await student.save(id, { questionId: 'q1', selectedOptionIds: ['a'] });
  await student.submit(id);
}

const RUNS = 'examhall_commands_total';
const raised = (samples: readonly Sample[], name: string) => sumOf(samples, 'examhall_alarms_total', { name });
/** Observations of a histogram above a bound. */
const above = (samples: readonly Sample[], name: string, le: string, labels: Readonly<Record<string, string>>) =>
  sumOf(samples, `${name}_count`, labels) - sumOf(samples, `${name}_bucket`, { ...labels, le });
const SAVES = { route: '/v1/attempts/:attemptId/answers', instance: 'web1' };

/** Stores an attempt that no code can read, and saves an answer in it. */
async function failingSave(): Promise<void> {
  const { student, id } = await client.sitting();
  await cluster.mongo.collection('attempts').updateOne({ _id: id as never }, { $set: { exam: null, answers: 7 } });
  const { status } = await student.save(id, { questionId: 'q1', selectedOptionIds: ['a'] });
  t.equal(status, 500);
}

/** Guesses passwords of several accounts, each until its throttle refuses and longer. */
async function guessing(): Promise<void> {
  const { data } = await auth.register();
  await auth.refresh(data.refreshToken);
  const used = { consumedAt: { $type: 'date' } } as const;
  await cluster.mongo.collection('auth_tokens').updateMany(used, { $set: { consumedAt: new Date(0) } });
  t.equal((await auth.refresh(data.refreshToken)).status, 401);
  for (let n = 0; n < 6; n += 1) {
    const email = newEmail();
    for (let tried = 0; tried < 9; tried += 1) await auth.login(email, 'wrong');
  }
}

/** Guesses the token of operators. */
async function guessingTokens(): Promise<void> {
  const headers = { authorization: 'Bearer a-guess' };
  for (let n = 0; n < 30; n += 1) t.equal((await cluster.request('GET', '/v1/ops/status', { headers })).status, 401);
}

/** Opens more connections than an address may hold. */
async function crowding(): Promise<void> {
  const sockets: Socket[] = [];
  const { port } = cluster.door();
  for (let n = 0; n < 140; n += 1) {
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('error', () => undefined);
    sockets.push(socket);
  }
  await once(sockets.at(-1) ?? connect(port), 'close');
  for (const socket of sockets) socket.destroy();
}

/** Sends an event that goes to the audit service too. */
async function audited(): Promise<void> {
  const headers = { 'x-internal-service': 'exam-service', 'x-internal-token': cluster.tokens.internal };
  const body = { type: 'exam.assigned.v1', notifications: [] };
  const { status } = await cluster.request('POST', '/v1/events/notification', { headers, body });
  t.equal(status, 201);
}

/** Subscribes a receiver that is gone to events, and sends it a test message. */
async function subscribing(): Promise<void> {
  const headers = { authorization: `Bearer ${cluster.tokens.ops}` };
  const body = { url: gone, types: ['attempt.graded'] };
  const created = await cluster.request('POST', '/v1/ops/subscriptions', { headers, body });
  t.equal(created.status, 201);
  const test = `/v1/ops/subscriptions/${created.data.subscription.id}/test`;
  t.equal((await cluster.request('POST', test, { headers, body: {} })).status, 201);
}

/** Calls a model whose provider fails. */
async function asking(): Promise<void> {
  const headers = { 'x-actor-id': 'teacher-1', 'x-actor-role': 'TEACHER', 'x-organization-id': 'org-1' };
  const body = { content: '1 + 1 = ?', options: [{ id: 'a', content: '2' }], answerKey: { correctOptionIds: ['a'] } };
  t.equal((await cluster.request('POST', '/v1/ai/explanation/preview', { headers, body })).status, 503);
}

/** Blocks the event loop of this process, in which front door and workers run, for longer than the last bound of the alerts. */
async function blocking(): Promise<void> {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
}

/** Longer than a save may take before `ExamhallSavesSlow` counts it as slow. */
const SLOW_MS = 1_500;

let isHanging = false;
let saves: Promise<void>[] = [];

/** MongoDB hangs, and more saves wait than there are connections: a save that fails is sent again. */
async function hanging(): Promise<void> {
  const { student, id } = await client.sitting();
  tap.hold();
  isHanging = true;
  saves = Array.from({ length: 80 }, async () => {
    do await student.save(id, { questionId: 'q1', selectedOptionIds: ['a'] });
    while (isHanging);
  });
}

/**
 * Lets MongoDB answer, and hang again. On a busy machine a scrape, which asks MongoDB too, may last until the driver counts MongoDB as gone: saves
 * then wait for a server instead of a connection.
 */
async function hangAgain(): Promise<false> {
  tap.release();
  await until('MongoDB answers', async () => (await cluster.request('GET', '/readyz')).status === 200);
  tap.hold();
  return false;
}

/** MongoDB answers again, but each of the saves is slow. */
async function answering(): Promise<void> {
  await delay(SLOW_MS);
  isHanging = false;
  tap.release();
  await Promise.all(saves);
}

/** Another worker takes the command whose receiver hangs. */
async function fencing(): Promise<void> {
  const running = { lockedUntil: { $ne: null }, status: 'PENDING' } as const;
  await cluster.mongo.collection('attempt_notices').updateMany(running, { $inc: { fence: 1 } });
  isHolding = false;
  for (const letGo of kept.splice(0)) letGo();
}

/** MongoDB hangs when a grade makes its waiting handoffs due, while more attempts are graded than background work may run and wait. */
async function piling(): Promise<void> {
  const mongo = { db: cluster.mongo, client: cluster.mongo.client, close: async () => undefined };
  const sourceEventId = 'handoff-that-waits';
  gradingTap.hold(sourceEventId);
  for (let n = 0; n < BACKGROUND_CONCURRENCY + BACKGROUND_WAITING + 10; n += 1) {
    await postGrading(mongo, await storeAttempt(mongo, { ...SUBMITTED, waitingHandoffs: [sourceEventId] }));
  }
}

t.test('what happens inside a process moves the metrics of its alerts', async (t) => {
  const logins = (samples: readonly Sample[], outcome: RegExp) =>
    samples.some(
      (one) => one.name === 'examhall_logins_total' && outcome.test(one.labels.outcome ?? '') && one.value > 0,
    );
  const web1 = { instance: 'web1' };

  await sitting();
  await fault(
    t,
    ['ExamhallFrontDoor500'],
    failingSave,
    (all) => sumOf(all, 'http_request_duration_seconds_count', { status: '500' }) > 0,
  );
  await fault(
    t,
    ['ExamhallLoginsThrottled', 'ExamhallPasswordsGuessed', 'ExamhallTokenReused'],
    guessing,
    (all) =>
      logins(all, /^throttled_./) &&
      logins(all, /^wrong_password$/) &&
      sumOf(all, 'examhall_refreshes_total', { outcome: 'reuse' }) > 0,
  );
  await fault(
    t,
    ['ExamhallTokensGuessed'],
    guessingTokens,
    (all) => sumOf(all, 'examhall_wrong_tokens_total', { kind: 'operator' }) >= 30,
  );
  await fault(
    t,
    ['ExamhallConnectionsDropped'],
    crowding,
    (all) => sumOf(all, 'examhall_connections_dropped_total', { reason: 'address' }) > 0,
  );
  await fault(t, ['ExamhallAuditFailed'], audited, (all) => raised(all, 'audit_failed') > 0);
  await fault(t, ['ExamhallSubscriptionDisabled'], subscribing, (all) => raised(all, 'subscription_disabled') > 0);
  await fault(
    t,
    ['ExamhallCircuitOpen'],
    asking,
    (all) => sumOf(all, 'examhall_provider_circuit', { state: 'open' }) === 1,
  );

  isHolding = true;
  const slots = { instance: 'gradenotices', queue: 'gradenotices:student' };
  await fault(
    t,
    ['ExamhallSlotsFull'],
    sitting,
    (all) => sumOf(all, 'examhall_slots_busy', slots) >= sumOf(all, 'examhall_slots', slots),
  );
  await fault(
    t,
    ['ExamhallLeasesLost'],
    fencing,
    (all) => sumOf(all, RUNS, { instance: 'gradenotices', ending: 'fenced' }) > 0,
  );

  await fault(t, ['ExamhallBackgroundDropped'], piling, (all) => raised(all, 'background_dropped') > 0);
  gradingTap.release();
  // A busy machine may have been slow before.
  const before = await scrape();
  const isMore = (all: readonly Sample[], name: string, le: string, labels: Readonly<Record<string, string>>) =>
    above(all, name, le, labels) > above(before, name, le, labels);
  const delays = 'examhall_event_loop_delay_seconds';
  await fault(
    t,
    ['ExamhallEventLoopBlocked', 'ExamhallEventLoopStopped'],
    blocking,
    (all) => isMore(all, delays, '0.5', web1) && isMore(all, delays, '2.5', web1),
  );
  const waiting = (all: readonly Sample[]) => sumOf(all, 'examhall_mongodb_waiting', web1) > 0;
  // One fault for both: on a busy machine, saves are slow before MongoDB answers again.
  await fault(
    t,
    ['ExamhallConnectionsExhausted', 'ExamhallSavesSlow'],
    async () => {
      t.notOk(waiting(await scrape()), 'calm');
      await hanging();
      await until('saves wait for a connection', async () => waiting(await scrape()) || hangAgain());
      await answering();
    },
    (all) => isMore(all, 'http_request_duration_seconds', '1', SAVES),
  );
});
