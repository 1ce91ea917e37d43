import t, { type Test } from 'tap';
import { ISOLATION_SLOT, type IsolationSlot } from '#infra/mongo/mailbox/suspects.ts';
import { freePort } from '#scripts/start/services/port.ts';
import { type AttemptClient, attemptClient } from '#testing/clients/attempt-client.ts';
import { startCluster, WORKERS } from '#testing/processes/cluster.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { makeSuspect } from '#testing/stored/stored-commands.ts';
import { postDelivery } from '#testing/stored/stored-notifications.ts';
import { openMongoTap } from '#testing/stores/mongo-tap.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { type Sample, scrapeAll, sumOf } from './scrape.ts';

// Causes the faults of a cluster, one after the other. Each must move the metrics of its alerts (ops/prometheus/rules.yml).

/** Workers of which the test stops one or reads the metrics. The others run inside the test. */
const MEASURED = ['grading', 'gradenotices', 'upkeep'] as const;
const ports = { grading: await freePort(), gradenotices: await freePort(), upkeep: await freePort() };
const tap = await openMongoTap(t, requiredEnv('MONGODB_URL'));
const cluster = await startCluster(t, {
  doors: 2,
  workers: WORKERS.filter((name) => !MEASURED.some((own) => own === name)),
  inside: true,
  apart: ['web1', 'web2', ...MEASURED],
  asleep: MEASURED,
  envOf: {
    web1: { MONGODB_URL: tap.url },
    // The second front door does not wait for a grade, so its submits show at once that no worker grades.
    web2: { MONGODB_URL: tap.url, ATTEMPT_GRADING_WAIT_MS: '0' },
    ...Object.fromEntries(MEASURED.map((name) => [name, { METRICS_PORT: String(ports[name]) }])),
  },
});
for (const name of MEASURED) await cluster.start(name);
const [patient, hasty] = [await attemptClient(cluster, 1), await attemptClient(cluster, 2)];
const mongo = { db: cluster.mongo, client: cluster.mongo.client, close: async () => undefined };

function scrape(): Promise<Sample[]> {
  const doors = [1, 2].map((n) => [`web${n}`, cluster.door(n).url]);
  return scrapeAll(
    Object.fromEntries([...doors, ...MEASURED.map((name) => [name, `http://127.0.0.1:${ports[name]}`])]),
  );
}

const { neighbours } = cluster;
const commands = cluster.mongo.collection<{ _id: string }>('commands');

/** Three students sit an exam: each saves twice and submits. */
async function sitting(client: AttemptClient): Promise<void> {
  for (let n = 0; n < 3; n += 1) {
    const { student, id } = await client.sitting();
    for (let saved = 0; saved < 2; saved += 1) await student.save(id, { questionId: 'q1', selectedOptionIds: ['a'] });
    await student.submit(id);
  }
}

/** A condition on the samples of a scrape. */
type Seen = (samples: readonly Sample[]) => boolean;

/** Tests that the fault of alerts moves their metrics: a scrape does not show it before, and shows it afterwards. */
function fault(t: Test, alerts: readonly string[], cause: () => Promise<unknown>, isSeen: Seen): Promise<unknown> {
  return t.test(`the fault of ${alerts.join(', ')} is in a scrape`, async (t) => {
    t.notOk(isSeen(await scrape()), 'calm');
    await cause();
    await scrapeUntil('it', isSeen);
  });
}

async function scrapeUntil(what: string, isSeen: Seen): Promise<void> {
  await until(`a scrape shows ${what}`, async () => isSeen(await scrape()));
}

const REQUESTS = 'http_request_duration_seconds_count';
const RUNS = 'examhall_commands_total';
const NOTICES = { queue: 'gradenotices:student', instance: 'web1' };

/** Moves a time of the waiting notices that have it into the past, as if their fault had begun then. */
async function makeOlder(path: 'failingSince' | 'lastError.refusal.since', minutes: number): Promise<void> {
  const waiting = { status: 'PENDING', [path]: { $type: 'date' } } as const;
  const past = new Date(Date.now() - minutes * 60_000);
  await cluster.mongo.collection('attempt_notices').updateMany(waiting, { $set: { [path]: past } });
}

/** The notification service refuses the notices of a sitting, for a minute. */
async function refusedNotices(): Promise<void> {
  neighbours.answer = () => ({ status: 401 });
  await sitting(patient);
  await until('a refused notice', async () => {
    const refused = { status: 'PENDING', 'lastError.refusal.service': 'notification' } as const;
    return (await cluster.mongo.collection('attempt_notices').countDocuments(refused)) > 0;
  });
  await makeOlder('lastError.refusal.since', 1);
}

async function failedCalls(): Promise<void> {
  neighbours.answer = () => ({ status: 500 });
  await sitting(patient);
}

/** A run of a grade hangs for 20 minutes, while its worker renews the lease. */
async function stalledRun(): Promise<void> {
  // In an hour, so that no worker of the cluster claims it.
  const runAt = Date.now() + 3_600_000;
  const { _id } = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { runAt });
  const hangs = { lockedUntil: new Date(runAt), workerId: 'hanging', movedAt: new Date(Date.now() - 1_200_000) };
  await commands.updateOne({ _id }, { $set: hangs });
}

/** A suspect waits, because another one runs alone for an hour. */
async function heldSuspect(): Promise<void> {
  const until = new Date(Date.now() + 3_600_000);
  const slots = cluster.mongo.collection<IsolationSlot>(ISOLATION_SLOT);
  await slots.insertOne({ _id: 'slot', until, workerId: 'w', queue: 'grading', commandId: 'another' });
  await makeSuspect(mongo, await postGrading(mongo, await storeAttempt(mongo, SUBMITTED)));
}

async function refusedForEver(): Promise<void> {
  neighbours.answer = () => ({ status: 422 });
  await sitting(patient);
}

/** The only grading worker stops, students submit, and ten minutes pass. */
async function stoppedWorker(): Promise<void> {
  await cluster.kill('grading', 'SIGTERM');
  await sitting(hasty);
  const waiting = { queue: 'grading', status: 'PENDING' } as const;
  await commands.updateMany(waiting, { $set: { nextRunAt: new Date(Date.now() - 600_000) } });
}

async function frozenStore(): Promise<void> {
  const { student, id } = await patient.sitting();
  tap.cut();
  const saves = Array.from({ length: 4 }, () => student.save(id, { questionId: 'q1', selectedOptionIds: ['a'] }));
  for (const reply of await Promise.all(saves)) t.equal(reply.status, 503);
}

t.test('a fault of the cluster moves the metrics of its alerts', async (t) => {
  const calls = 'examhall_neighbour_call_duration_seconds_count';
  await sitting(patient);
  await scrapeUntil('delivered notices', (all) => sumOf(all, RUNS, { instance: 'gradenotices', ending: 'done' }) >= 6);
  await fault(
    t,
    ['ExamhallDependencyRefuses'],
    refusedNotices,
    (all) => sumOf(all, 'examhall_dependency_refused', { name: 'notification', instance: 'web1' }) > 0,
  );
  await fault(
    t,
    ['ExamhallNeighbourDown', 'ExamhallCommandsRetried', 'ExamhallAnalyticsFailed'],
    failedCalls,
    (all) =>
      sumOf(all, calls, { neighbour: 'notification', outcome: 'failed' }) > 0 &&
      sumOf(all, RUNS, { instance: 'gradenotices', ending: 'retried' }) >= 6 &&
      sumOf(all, 'examhall_alarms_total', { name: 'analytics_failed' }) > 0,
  );
  await fault(
    t,
    ['ExamhallHeldBack'],
    () => makeOlder('failingSince', 20),
    (all) => sumOf(all, 'examhall_queue_held_back', NOTICES) > 0,
  );
  await fault(
    t,
    ['ExamhallRunStalled'],
    stalledRun,
    (all) => sumOf(all, 'examhall_queue_stillest_seconds', { queue: 'grading', instance: 'web1' }) > 600,
  );

  neighbours.answer = null;
  await commands.deleteMany({ workerId: 'hanging' });
  await scrapeUntil('idle slots', (all) => sumOf(all, 'examhall_slots_busy') === 0);
  await fault(
    t,
    ['ExamhallCommandHeld'],
    heldSuspect,
    (all) => sumOf(all, 'examhall_queue_suspects', { queue: 'grading' }) > 0,
  );
  await commands.deleteMany({ queue: 'grading', status: 'PENDING' });
  // The workers of deliveries have no channel.
  await fault(
    t,
    ['ExamhallQueueUnserved'],
    () => postDelivery(mongo, { channel: 'email' }),
    (all) => sumOf(all, 'examhall_queue_unserved', { queue: 'delivery:email' }) > 0,
  );
  await fault(t, ['ExamhallDeadLetters'], refusedForEver, (all) => sumOf(all, 'examhall_dead_letters', NOTICES) > 0);
  neighbours.answer = null;

  await fault(
    t,
    [
      'ExamhallNoWorker',
      'ExamhallQueueStuck',
      'ExamhallSubmitsLate',
      'ExamhallObjectiveBurnsFast',
      'ExamhallObjectiveBurnsSlowly',
    ],
    stoppedWorker,
    (all) =>
      sumOf(all, 'examhall_queue_oldest_due_seconds', { queue: 'grading', instance: 'web2' }) > 60 &&
      sumOf(all, 'examhall_workers', { actor: 'grading' }) === 0 &&
      sumOf(all, REQUESTS, { route: '/v1/attempts/:attemptId/submit', status: '202' }) > 0,
  );
  await cluster.start('grading');

  await fault(
    t,
    ['ExamhallStoreDown', 'ExamhallBlind', 'ExamhallFrontDoor503'],
    frozenStore,
    (all) =>
      sumOf(all, 'examhall_dependency_up', { name: 'mongodb', instance: 'web1' }) === 0 &&
      sumOf(all, 'examhall_scrape_failures_total') > 0 &&
      sumOf(all, REQUESTS, { status: '503', route: '/v1/attempts/:attemptId/answers' }) > 0,
  );
  tap.join();
  await scrapeUntil('MongoDB again', (all) => sumOf(all, 'examhall_workers') > 0);
  await fault(
    t,
    ['ExamhallNoFrontDoor'],
    () => Promise.all(['web1', 'web2'].map((name) => cluster.kill(name))),
    (all) => all.length > 0 && all.every(({ name }) => name !== 'examhall_workers'),
  );
});
