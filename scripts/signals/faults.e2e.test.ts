import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { BACKGROUND_CONCURRENCY } from '#infra/process/background.ts';
import { answerJson, openReceiver } from '#scripts/http/local-server.ts';
import { freePort } from '#scripts/services/port.ts';
import { attemptClient } from '#testing/clients/attempt-client.ts';
import { authClient, newEmail } from '#testing/clients/auth-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openMongoTap } from '#testing/stores/mongo-tap.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { CAUSED_INSIDE, type Played, playRules, SKIP } from './play-rules.ts';
import { asOnAnIdleMachine, openRecording, type Phase } from './recording.ts';
import { type Sample, scrape } from './scrape.ts';

// Causes faults inside one front door and three workers, and scrapes them as Prometheus does.

type Fault = Omit<Phase, 'minutes'>;

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

/** Times are those of an idle machine, except in the run of a fault that is itself a time. */
let isTimed = false;
const recording = openRecording(
  [
    { instance: 'web1', read: () => scrape(cluster.door().url) },
    { instance: 'grading', read: () => scrape(`http://127.0.0.1:${ports.grading}`) },
    { instance: 'gradenotices', read: () => scrape(`http://127.0.0.1:${ports.gradenotices}`) },
    { instance: 'upkeep', read: () => scrape(`http://127.0.0.1:${ports.upkeep}`) },
  ],
  (all) => (isTimed ? all : asOnAnIdleMachine(all)),
);

function sumOf(samples: readonly Sample[], name: string, labels: Readonly<Record<string, string>> = {}): number {
  return samples
    .filter((one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value))
    .reduce((sum, { value }) => sum + value, 0);
}

/** Scrapes, causes a fault, and scrapes again until `isSeen`. */
async function run(cause: () => Promise<unknown>, isSeen: (samples: readonly Sample[]) => boolean): Promise<Fault> {
  const from = await recording.scrape();
  await cause();
  const found = await until('the fault is in a scrape', async () => {
    const to = await recording.scrape();
    return isSeen(recording.samples(to)) && { to };
  });
  return { from, to: found.to };
}

/** A student sits an exam: a save, and a submit with its grade and its notices. */
async function sitting(): Promise<void> {
  const { student, id } = await client.sitting();
  await student.save(id, { questionId: 'q1', selectedOptionIds: ['a'] });
  await student.submit(id);
}

const RUNS = 'examhall_commands_total';
const raised = (samples: readonly Sample[], name: string) => sumOf(samples, 'examhall_alarms_total', { name });
const delivered = (samples: readonly Sample[]) => sumOf(samples, RUNS, { instance: 'gradenotices', ending: 'done' });

async function calmRun(): Promise<Fault> {
  await sitting();
  await until('notices arrive', async () => delivered(recording.samples(await recording.scrape())) >= 2);
  return run(sitting, (samples) => delivered(samples) >= 4);
}

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

/** True if a scrape shows a delay of the front door's event loop over 2.5 s. */
function isStopped(samples: readonly Sample[]): boolean {
  const [delays, web1] = ['examhall_event_loop_delay_seconds', { instance: 'web1' }];
  return sumOf(samples, `${delays}_count`, web1) > sumOf(samples, `${delays}_bucket`, { ...web1, le: '2.5' });
}

/** Longer than a save may take before `ExamhallSavesSlow` counts it as slow. */
const SLOW_MS = 1_500;

/** MongoDB hangs while more saves arrive than there are connections, until each of them is slow. */
async function hanging(): Promise<{ waiting: Fault; slow: Fault }> {
  const { student, id } = await client.sitting();
  isTimed = true;
  const from = await recording.scrape();
  tap.hold();
  const saves = Array.from({ length: 80 }, () => student.save(id, { questionId: 'q1', selectedOptionIds: ['a'] }));
  const during = await until('saves wait for a connection', async () => {
    const to = await recording.scrape();
    return sumOf(recording.samples(to), 'examhall_mongodb_waiting', { instance: 'web1' }) > 0 && { to };
  });
  await delay(SLOW_MS);
  tap.release();
  await Promise.all(saves);
  const after = await recording.scrape();
  isTimed = false;
  return { waiting: { from, to: during.to }, slow: { from, to: after } };
}

/** The receiver of notices hangs, so that the only slot is busy; then another worker takes the command. */
async function fencing(): Promise<{ slots: Fault; leases: Fault }> {
  isHolding = true;
  const slots = await run(sitting, (samples) => {
    const own = { instance: 'gradenotices', queue: 'gradenotices:student' };
    return sumOf(samples, 'examhall_slots_busy', own) >= 1;
  });
  const leases = await run(
    async () => {
      const running = { lockedUntil: { $ne: null }, status: 'PENDING' } as const;
      await cluster.mongo.collection('attempt_notices').updateMany(running, { $inc: { fence: 1 } });
      isHolding = false;
      for (const letGo of kept.splice(0)) letGo();
    },
    (samples) => sumOf(samples, RUNS, { instance: 'gradenotices', ending: 'fenced' }) > 0,
  );
  return { slots, leases };
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

t.test('alerts on what happens inside a process fire in the run of their fault', { skip: SKIP }, async (t) => {
  const calm = await calmRun();
  const errors = await run(
    failingSave,
    (samples) => sumOf(samples, 'http_request_duration_seconds_count', { status: '500' }) > 0,
  );
  const guessed = await run(
    guessing,
    (samples) => sumOf(samples, 'examhall_refreshes_total', { outcome: 'reuse' }) > 0,
  );
  const wrongTokens = await run(
    guessingTokens,
    (samples) => sumOf(samples, 'examhall_wrong_tokens_total', { kind: 'operator' }) >= 30,
  );
  const crowded = await run(
    crowding,
    (samples) => sumOf(samples, 'examhall_connections_dropped_total', { reason: 'address' }) > 0,
  );
  const lost = await run(audited, (samples) => raised(samples, 'audit_failed') > 0);
  const disabled = await run(subscribing, (samples) => raised(samples, 'subscription_disabled') > 0);
  const open = await run(asking, (samples) => sumOf(samples, 'examhall_provider_circuit', { state: 'open' }) === 1);
  const { slots, leases } = await fencing();
  const dropped = await run(piling, (samples) => raised(samples, 'background_dropped') > 0);
  gradingTap.release();
  isTimed = true;
  const blocked = await run(blocking, isStopped);
  isTimed = false;
  const { waiting, slow } = await hanging();
  const played: Played[] = [
    { name: 'unreadable attempt', fault: errors, alerts: ['ExamhallFrontDoor500'] },
    {
      name: 'guessed passwords',
      fault: guessed,
      alerts: ['ExamhallLoginsThrottled', 'ExamhallPasswordsGuessed', 'ExamhallTokenReused'],
    },
    { name: 'guessed tokens', fault: wrongTokens, alerts: ['ExamhallTokensGuessed'] },
    { name: 'crowd of connections', fault: crowded, alerts: ['ExamhallConnectionsDropped'] },
    { name: 'failing audit service', fault: lost, alerts: ['ExamhallAuditFailed'] },
    { name: 'receiver of events that is gone', fault: disabled, alerts: ['ExamhallSubscriptionDisabled'] },
    { name: 'failing model provider', fault: open, alerts: ['ExamhallCircuitOpen'] },
    { name: 'hanging receiver', fault: slots, alerts: ['ExamhallSlotsFull'] },
    { name: 'lost lease', fault: leases, alerts: ['ExamhallLeasesLost'] },
    { name: 'handoffs that MongoDB holds', fault: dropped, alerts: ['ExamhallBackgroundDropped'] },
    { name: 'blocked event loop', fault: blocked, alerts: ['ExamhallEventLoopBlocked', 'ExamhallEventLoopStopped'] },
    { name: 'hanging store', fault: waiting, alerts: ['ExamhallConnectionsExhausted'] },
    { name: 'saves after a hanging store', fault: slow, alerts: ['ExamhallSavesSlow'] },
  ];
  const fired = played.flatMap(({ alerts }) => alerts);
  t.strictSame(fired.sort(), [...CAUSED_INSIDE].sort());
  await playRules(t, recording, calm, played, CAUSED_INSIDE);
});
