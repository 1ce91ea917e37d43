import t from 'tap';
import { ISOLATION_SLOT, type IsolationSlot } from '#infra/mongo/mailbox/suspects.ts';
import { freePort } from '#scripts/services/port.ts';
import { type AttemptClient, attemptClient } from '#testing/clients/attempt-client.ts';
import { startCluster, WORKERS } from '#testing/processes/cluster.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { postDelivery } from '#testing/stored/stored-deliveries.ts';
import { makeSuspect } from '#testing/stored/stored-suspects.ts';
import { openMongoTap } from '#testing/stores/mongo-tap.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { ALERTS, CAUSED_INSIDE, type Played, playRules, SKIP } from './play-rules.ts';
import { asOnAnIdleMachine, openRecording, type Phase } from './recording.ts';
import { scrape } from './scrape.ts';

const STOPPED = [
  'ExamhallNoWorker',
  'ExamhallQueueStuck',
  'ExamhallSubmitsLate',
  'ExamhallObjectiveBurnsFast',
  'ExamhallObjectiveBurnsSlowly',
];
const FAILING = ['ExamhallNeighbourDown', 'ExamhallCommandsRetried', 'ExamhallAnalyticsFailed'];
const FROZEN = ['ExamhallStoreDown', 'ExamhallBlind', 'ExamhallFrontDoor503', 'ExamhallObjectiveBurnsFast'];

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
const own = MEASURED.map((name) => ({ instance: name, read: () => scrape(`http://127.0.0.1:${ports[name]}`) }));
const doors = [1, 2].map((n) => ({ instance: `web${n}`, read: () => scrape(cluster.door(n).url) }));
const recording = openRecording([...doors, ...own], asOnAnIdleMachine);

/** Three students sit an exam: each saves twice and submits. */
async function sitting(client: AttemptClient): Promise<void> {
  for (let n = 0; n < 3; n += 1) {
    const { student, id } = await client.sitting();
    for (let saved = 0; saved < 2; saved += 1) await student.save(id, { questionId: 'q1', selectedOptionIds: ['a'] });
    await student.submit(id);
  }
}

/** Scrapes until the samples of the scrape show `isSeen`. Returns the number of that scrape. */
async function scrapeUntil(what: string, isSeen: (sum: typeof sumOf) => boolean): Promise<number> {
  const found = await until(what, async () => {
    const number = await recording.scrape();
    return isSeen((name, labels) => sumOf(name, labels, number)) && { number };
  });
  return found.number;
}

/** Returns the sum of the samples of a scrape with these labels. */
function sumOf(name: string, labels: Readonly<Record<string, string>>, scraped = -1): number {
  return recording
    .samples(scraped)
    .filter((one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value))
    .reduce((sum, one) => sum + one.value, 0);
}

const ALARMS = 'examhall_alarms_total';
const MAILBOX_OF_NOTICES = 'attempt_notices';

/** Moves a time of the waiting notices that have it into the past, as if their fault had begun then. */
async function makeOlder(path: 'failingSince' | 'lastError.refusal.since', minutes: number): Promise<void> {
  const waiting = { status: 'PENDING', [path]: { $type: 'date' } } as const;
  const past = new Date(Date.now() - minutes * 60_000);
  await cluster.mongo.collection(MAILBOX_OF_NOTICES).updateMany(waiting, { $set: { [path]: past } });
}
const RUNS = 'examhall_commands_total';

/** Waits until notices are refused, lets a minute pass, and scrapes until the gauge counts them. */
async function refusedFor(name: string): Promise<number> {
  await until('a refused notice', async () => {
    const refused = { status: 'PENDING', 'lastError.refusal.service': name } as const;
    return (await cluster.mongo.collection(MAILBOX_OF_NOTICES).countDocuments(refused)) > 0;
  });
  await makeOlder('lastError.refusal.since', 1);
  return scrapeUntil('a refusal', (sum) => sum('examhall_dependency_refused', { name, instance: 'web1' }) > 0);
}

/** A run of a grade hangs, while its worker renews the lease. Returns its phase. */
async function stalledRun(): Promise<Omit<Phase, 'minutes'>> {
  const mongo = { db: cluster.mongo, client: cluster.mongo.client, close: async () => undefined };
  const from = await recording.scrape();
  // In an hour, so that no worker of the cluster claims it.
  const runAt = Date.now() + 3_600_000;
  const { _id } = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { runAt });
  const hangs = { lockedUntil: new Date(runAt), workerId: 'hanging', movedAt: new Date(Date.now() - 1_200_000) };
  const commands = cluster.mongo.collection<{ _id: string }>('commands');
  await commands.updateOne({ _id }, { $set: hangs });
  const to = await scrapeUntil(
    'a run without a step',
    (sum) => sum('examhall_queue_stillest_seconds', { queue: 'grading', instance: 'web1' }) > 600,
  );
  await commands.deleteOne({ _id });
  return { from, to };
}

/** Records a calm cluster and its faults, one after the other. Returns the phase of each. */
async function recordAll(): Promise<
  Record<
    | 'calm'
    | 'refused'
    | 'failing'
    | 'heldBack'
    | 'stalled'
    | 'held'
    | 'unserved'
    | 'dead'
    | 'stopped'
    | 'frozen'
    | 'gone',
    Omit<Phase, 'minutes'>
  >
> {
  const { neighbours } = cluster;
  const delivered = (from: number) => (sum: typeof sumOf) =>
    sum(RUNS, { instance: 'gradenotices', ending: 'done' }) >=
    sumOf(RUNS, { instance: 'gradenotices', ending: 'done' }, from) + 6;
  await sitting(patient);
  const first = await scrapeUntil(
    'notices arrive',
    (sum) => sum(RUNS, { instance: 'gradenotices', ending: 'done' }) >= 6,
  );
  await sitting(patient);
  const calm = { from: first, to: await scrapeUntil('notices arrive again', delivered(first)) };

  neighbours.answer = () => ({ status: 401 });
  await sitting(patient);
  const refused = {
    from: calm.to,
    to: await refusedFor('notification'),
  };

  neighbours.answer = () => ({ status: 500 });
  const failingFrom = await recording.scrape();
  await sitting(patient);
  const failing = {
    from: failingFrom,
    to: await scrapeUntil('retries of notices and events', (sum) => {
      const retried = { ending: 'retried' };
      const more = sum(RUNS, retried) - sumOf(RUNS, retried, failingFrom);
      return (
        more >= 6 &&
        sum(ALARMS, { name: 'analytics_failed' }) > sumOf(ALARMS, { name: 'analytics_failed' }, failingFrom)
      );
    }),
  };

  const heldBackFrom = await recording.scrape();
  await makeOlder('failingSince', 20);
  const heldBack = {
    from: heldBackFrom,
    to: await scrapeUntil(
      'commands that are held back',
      (sum) => sum('examhall_queue_held_back', { queue: 'gradenotices:student', instance: 'web1' }) > 0,
    ),
  };
  const stalled = await stalledRun();

  neighbours.answer = null;
  const mongo = { db: cluster.mongo, client: cluster.mongo.client, close: async () => undefined };
  const heldFrom = await scrapeUntil('no run fails any longer', (sum) => sum('examhall_slots_busy', {}) === 0);
  // Another suspect runs alone for an hour.
  const until = new Date(Date.now() + 3_600_000);
  const slots = cluster.mongo.collection<IsolationSlot>(ISOLATION_SLOT);
  await slots.insertOne({ _id: 'slot', until, workerId: 'w', queue: 'grading', commandId: 'another' });
  const suspect = await makeSuspect(mongo, await postGrading(mongo, await storeAttempt(mongo, SUBMITTED)));
  const held = {
    from: heldFrom,
    to: await scrapeUntil('a suspect', (sum) => sum('examhall_queue_suspects', { queue: 'grading' }) > 0),
  };
  await cluster.mongo.collection<{ _id: string }>('commands').deleteOne({ _id: suspect._id });

  const unservedFrom = await scrapeUntil('no run fails any longer', (sum) => sum('examhall_slots_busy', {}) === 0);
  // The workers of deliveries have no channel.
  const job = await postDelivery(mongo, { channel: 'email' });
  const unserved = {
    from: unservedFrom,
    to: await scrapeUntil('a delivery waits', (sum) => sum('examhall_queue_unserved', { queue: 'delivery:email' }) > 0),
  };
  await cluster.mongo.collection<{ _id: string }>('notification_deliveries').deleteOne({ _id: job._id });

  neighbours.answer = () => ({ status: 422 });
  const deadFrom = await recording.scrape();
  await sitting(patient);
  const dead = {
    from: deadFrom,
    to: await scrapeUntil('dead letters', (sum) => sum('examhall_dead_letters', { queue: 'gradenotices:student' }) > 0),
  };
  neighbours.answer = null;

  await cluster.kill('grading', 'SIGTERM');
  const stoppedFrom = await recording.scrape();
  await sitting(hasty);
  // The oldest command of a minute ago, without a minute of waiting.
  const minuteAgo = new Date(Date.now() - 600_000);
  await cluster.mongo
    .collection('commands')
    .updateMany({ queue: 'grading', status: 'PENDING' }, { $set: { nextRunAt: minuteAgo } });
  const stopped = {
    from: stoppedFrom,
    to: await scrapeUntil(
      'no worker',
      (sum) =>
        sum('examhall_queue_oldest_due_seconds', { queue: 'grading', instance: 'web2' }) > 60 &&
        sum('examhall_workers', { actor: 'grading' }) === 0,
    ),
  };
  await cluster.start('grading');

  const { student, id } = await patient.sitting();
  tap.cut();
  const FAILURES = 'examhall_scrape_failures_total';
  const frozenFrom = await scrapeUntil('MongoDB does not answer', (sum) => sum(FAILURES, {}) > 0);
  const saves = Array.from({ length: 4 }, () => student.save(id, { questionId: 'q1', selectedOptionIds: ['a'] }));
  for (const reply of await Promise.all(saves)) t.equal(reply.status, 503);
  const frozen = {
    from: frozenFrom,
    to: await scrapeUntil('more failures', (sum) => sum(FAILURES, {}) > sumOf(FAILURES, {}, frozenFrom)),
  };
  tap.join();

  await Promise.all(['web1', 'web2'].map((name) => cluster.kill(name)));
  const gone = { from: frozen.to, to: await recording.scrape() };
  return { calm, refused, failing, heldBack, stalled, held, unserved, dead, stopped, frozen, gone };
}

t.test('each rule fires in the run of its fault, and none in a calm one', { skip: SKIP }, async (t) => {
  const { calm, ...faults } = await recordAll();
  const played: Played[] = [
    { name: 'stopped worker', fault: faults.stopped, alerts: STOPPED },
    { name: 'refusing neighbour', fault: faults.refused, alerts: ['ExamhallDependencyRefuses'] },
    { name: 'failing neighbour', fault: faults.failing, alerts: FAILING },
    { name: 'commands that fail again and again', fault: faults.heldBack, alerts: ['ExamhallHeldBack'] },
    { name: 'hanging run', fault: faults.stalled, alerts: ['ExamhallRunStalled'] },
    { name: 'suspect', fault: faults.held, alerts: ['ExamhallCommandHeld'] },
    { name: 'missing channel', fault: faults.unserved, alerts: ['ExamhallQueueUnserved'] },
    { name: 'dead letter', fault: faults.dead, alerts: ['ExamhallDeadLetters'] },
    { name: 'frozen store', fault: faults.frozen, alerts: FROZEN },
    { name: 'no front door', fault: faults.gone, alerts: ['ExamhallNoFrontDoor'] },
  ];
  const fired = new Set([...played.flatMap(({ alerts }) => alerts), ...CAUSED_INSIDE]);
  t.strictSame([...fired].sort(), [...ALERTS].sort(), 'each alert has its fault');
  await playRules(t, recording, calm, played);
});
