import t, { type Test } from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { NOTICES, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommand, postCommandsIn } from '#infra/mongo/mailbox/mailbox.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { newId } from '#shared/kernel/ids.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { testKernel, testWorker } from '#testing/actors/test-kernel.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { postJob } from '#testing/stored/stored-model-work.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { countCommands } from '#testing/stores/plans.ts';
import { gate, until } from '#testing/until.ts';
import type { Actor } from './actor.ts';
import { runCommand } from './run-command.ts';
import { openWorker } from './worker.ts';

const STUDENT = 'gradenotices:student';
const PARENT = 'gradenotices:parent';
const SLOTS = 8;
/** Slots of each queue, if a worker serves two. */
const SLOTS_OF_TWO = 2;

/** Stores notices, and opens a worker of eight slots for them. Each run ends its notice at once. */
async function openBacklog(t: Test, { backlog }: { backlog: number }) {
  const stored = await openTestMongo(t);
  const now = Date.now() - 1_000;
  const commands = Array.from({ length: backlog }, () => {
    const [notice] = gradeNotices(sampleAttempt());
    if (notice === undefined) throw new Error('an attempt has no notice');
    return newCommand({ queue: STUDENT, key: newId(now), subject: 'a test', body: notice, maxAttempts: 10, now });
  });
  await inTransaction(stored, 5_000, (session) => postCommandsIn(stored, session, commands));
  const mongo = openMongo({ url: stored.url, database: stored.database, appName: 'counted' });
  t.teardown(() => mongo.close());
  const sent = countCommands(mongo);
  const runs = new Map<string, number>();
  const actor: Actor = {
    name: 'gradenotices',
    backoff: { baseMs: 1, capMs: 1 },
    handlers: {
      async [STUDENT]({ command }) {
        runs.set(command._id, (runs.get(command._id) ?? 0) + 1);
        return { kind: 'done', as: 'DELIVERED', result: { recipients: 1 } };
      },
    },
  };
  await mongo.db.command({ ping: 1 });
  sent.taken();
  return { stored, mongo, commands, sent, runs, actor };
}

/** Lets a worker work off due notices. Returns the runs of each, and the MongoDB commands of the worker. */
async function workOffBacklog(t: Test, backlog: number) {
  const { stored, mongo, sent, runs, actor } = await openBacklog(t, { backlog });
  const left = () => mailboxOf(stored, STUDENT).countDocuments({ queue: STUDENT, status: 'PENDING' });
  // The first poll of a worker begins when it is opened.
  const worker = testWorker(t, testKernel(mongo), actor, { concurrency: SLOTS });
  await until('the backlog is worked off', async () => (await left()) === 0);
  await worker.idle();
  return { runs, commands: sent.taken() };
}

t.test('the poll works through a backlog without a new read of it for each command', async (t) => {
  const backlog = 100;
  const { runs, commands } = await workOffBacklog(t, backlog);
  t.equal(runs.size, backlog);
  t.ok([...runs.values()].every((count) => count === 1));
  // Each needs a claim and a settlement. A read for each of them would be a third command.
  t.ok(commands.length <= 2 * backlog + 5, `${commands.length} MongoDB commands for ${backlog} commands`);
});

t.test('a ring costs a claim and a settlement, and a claim alone if it names no command', async (t) => {
  const { mongo, commands, sent, runs, actor } = await openBacklog(t, { backlog: 1 });
  const [keyed] = commands;
  if (keyed === undefined) throw new Error('a notice is stored');
  t.equal(await runCommand(testKernel(mongo), actor, keyed), 'done');
  t.strictSame(sent.taken(), ['findAndModify', 'update']);
  t.strictSame([...runs.values()], [1]);
  t.equal(await runCommand(testKernel(mongo), actor, { _id: 'unknown', queue: STUDENT, key: 'unknown' }), 'not-ours');
  t.strictSame(sent.taken(), ['findAndModify']);
  t.equal(await runCommand(testKernel(mongo), actor, { ...keyed, key: 'another' }), 'not-ours', 'a wrong key');
});

/** A worker, by default of one slot, whose runs end one by one, each when the test lets it, and due jobs, by default eight of three organizations. */
async function crowdedWorker(
  t: Test,
  {
    letters: organizations = 'aaaaaabc',
    concurrency = 1,
    share = 'ALL',
  }: { letters?: string; concurrency?: number; share?: 'ALL' | 'HALF' } = {},
) {
  const mongo = await openTestMongo(t);
  const letters = new Map<string, string>();
  const commands = [];
  for (const [n, organizationId] of [...organizations].entries()) {
    const command = await postJob(mongo, { runAt: Date.now() - HOUR + n * 1_000, request: { organizationId } });
    letters.set(command.subject, organizationId);
    commands.push(command);
  }
  const order: string[] = [];
  const begin = gate();
  const actor: Actor = {
    name: 'classifier',
    turns: { classifier: share },
    backoff: { baseMs: 1, capMs: 1 },
    handlers: {
      async classifier({ command }) {
        order.push(letters.get(command.subject) ?? '?');
        await begin.opened;
        return { kind: 'done', result: { status: 'COMPLETED' } };
      },
    },
  };
  const kernel = testKernel(mongo);
  const worker = openWorker(kernel, actor, { concurrency, pollMs: HOUR, now: Date.now });
  t.teardown(() => worker.drain());
  t.teardown(begin.open);
  return { commands, order, begin, worker };
}

t.test('the poll goes round the organizations, so that a backlog of one delays another by one run', async (t) => {
  const { order, begin, worker } = await crowdedWorker(t);
  begin.open();
  await worker.poll();
  await until('all have run', () => order.length === 8);
  await worker.idle();
  t.equal(order.join(''), 'abcaaaaa');
});

t.test('rings of one organization do not fill the slots before the others', async (t) => {
  const { commands, order, begin, worker } = await crowdedWorker(t);
  const rings = commands.map((command) => worker.tryRun(command));
  begin.open();
  await Promise.all(rings);
  await worker.poll();
  await until('all have run', () => order.length === 8);
  await worker.idle();
  t.equal(order.slice(0, 3).sort().join(''), 'abc');
  t.equal(order.length, 8, 'each runs once');
  t.strictSame(worker.busy(), []);
});

t.test('a poll beside rings of several organizations ends, and the queue is polled again', async (t) => {
  const { commands, order, begin, worker } = await crowdedWorker(t);
  const rings = commands.map((command) => worker.tryRun(command));
  let isOver = false;
  const poll = worker.poll().then(() => {
    isOver = true;
  });
  begin.open();
  await Promise.all(rings);
  await until('the poll has ended', () => isOver);
  await poll;
  await worker.idle();
  t.equal(order.length, 8, 'each runs once');
});

t.test('rings of one organization hold no more than its share of the slots', async (t) => {
  const { commands, order, begin, worker } = await crowdedWorker(t, {
    letters: 'aaaaaa',
    concurrency: 4,
    share: 'HALF',
  });
  const ended: string[] = [];
  const rings = commands.map(async (command) => ended.push(await worker.tryRun(command)));
  // A slot is busy from before the claim, so the slots do not show that both runs have begun.
  await until('four rings have found no turn, and two runs have begun', () => ended.length === 4 && order.length === 2);
  t.strictSame(ended, ['not-ours', 'not-ours', 'not-ours', 'not-ours']);
  t.equal(worker.slots()[0]?.busy, 2);
  begin.open();
  await Promise.all(rings);
  t.strictSame(ended.slice(4), ['done', 'done']);
  await worker.poll();
  await until('the poll has run the others', () => order.length === 6);
  await worker.idle();
});

/** Posts due notices of a queue, each a second younger than the one before. */
async function postNotices(mongo: TestMongo, queue: typeof STUDENT | typeof PARENT, count: number) {
  const [notice] = gradeNotices(sampleAttempt());
  if (notice === undefined) throw new Error('an attempt has no notice');
  const commands = Array.from({ length: count }, (_, n) =>
    newCommand({
      queue,
      key: newId(),
      subject: queue,
      body: notice,
      maxAttempts: 3,
      now: Date.now() - HOUR + n * 1_000,
    }),
  );
  await inTransaction(mongo, 30_000, (session) => postCommandsIn(mongo, session, commands));
  return commands.map(({ _id }) => _id);
}

/** Opens workers that serve both queues of notices, and counts their MongoDB commands. `hold` delays the end of the runs of a queue. */
async function openQueues(
  t: Test,
  { workers, pollMs, hold }: { workers: number; pollMs: number; hold?: Promise<void> },
) {
  const stored = await openTestMongo(t);
  const mongo = openMongo({ url: stored.url, database: stored.database, appName: 'counted' });
  t.teardown(() => mongo.close());
  const sent = countCommands(mongo);
  const order: string[] = [];
  const end = { kind: 'done', as: 'DELIVERED', result: { recipients: 1 } } as const;
  const actor: Actor = {
    name: 'gradenotices',
    backoff: { baseMs: 1, capMs: 1 },
    handlers: {
      async [STUDENT]({ command }) {
        order.push(command._id);
        await hold;
        return end;
      },
      async [PARENT]({ command }) {
        order.push(command._id);
        return end;
      },
    },
  };
  const open = () => {
    const worker = openWorker(testKernel(mongo), actor, {
      concurrency: SLOTS_OF_TWO,
      pollMs,
      now: Date.now,
      pollsTogether: true,
    });
    t.teardown(() => worker.drain());
    return worker;
  };
  return { stored, mongo, sent, order, opened: Array.from({ length: workers }, open) };
}

t.test('an idle worker of two queues sends one statement a poll', async (t) => {
  const workers = 10;
  const { mongo, sent, opened } = await openQueues(t, { workers, pollMs: HOUR });
  let finds = 0;
  const count = () => (finds += sent.taken().filter((name) => name === 'find').length);
  await until('the first polls have ended', async () => count() >= workers);
  await mongo.db.command({ ping: 1 });
  sent.taken();
  await Promise.all(opened.map((worker) => worker.poll()));
  t.strictSame(sent.taken(), Array(workers).fill('find'));
});

t.test('each actor of two queues sends such a poll, and runs what is due', async (t) => {
  const mongo = await openTestMongo(t);
  const queues = [
    ['upkeep', 'upkeep:fanouts'],
    ['delivery:log', 'delivery:webhook'],
  ] as const;
  for (const [one, two] of queues) {
    const ran: string[] = [];
    const snooze = async ({ command }: { command: { queue: string } }) => {
      ran.push(command.queue);
      return { kind: 'snooze', afterMs: HOUR } as const;
    };
    const handlers = { [one]: snooze, [two]: snooze };
    const actor: Actor = { name: one, backoff: { baseMs: 1, capMs: 1 }, handlers };
    for (const queue of [one, two])
      await postCommand(
        mongo,
        newCommand({ queue, key: newId(), subject: 's', body: {} as never, maxAttempts: 3, now: 0 }),
      );
    const options = { concurrency: SLOTS_OF_TWO, pollMs: HOUR, now: Date.now, pollsTogether: true };
    const worker = openWorker(testKernel(mongo), actor, options);
    t.teardown(() => worker.drain());
    await until('both queues were polled', () => ran.length === 2);
    t.strictSame(ran.sort(), [one, two]);
  }
});

t.test('a backlog of one queue that fills the list does not hide the other queue, and keeps its order', async (t) => {
  const { stored, order, opened } = await openQueues(t, { workers: 1, pollMs: HOUR });
  const [worker] = opened;
  const backlog = await postNotices(stored, STUDENT, 220);
  const [later] = await postNotices(stored, PARENT, 221).then((ids) => ids.slice(-1));
  await worker?.poll();
  await worker?.idle();
  t.equal(new Set(order).size, 441, 'each ran');
  t.equal(order.length, 441, 'each ran once');
  const students = order.filter((id) => backlog.includes(id));
  t.ok(
    students.every((id, at) => Math.abs(at - backlog.indexOf(id)) < 10 * SLOTS_OF_TWO),
    'longest due first',
  );
  t.ok(order.indexOf(String(later)) > order.length / 2);
});

t.test('a queue whose slots hang does not delay the polls of the other, and goes on once a slot is free', async (t) => {
  const { open, opened: hold } = gate();
  const { stored, order } = await openQueues(t, { workers: 1, pollMs: 5, hold });
  const students = await postNotices(stored, STUDENT, SLOTS_OF_TWO + 1);
  await until('the slots of one queue hang', () => order.length === SLOTS_OF_TWO);
  for (let n = 1; n <= 3; n++) {
    await postNotices(stored, PARENT, 1);
    await until('a notice of the other queue ran', () => order.length === SLOTS_OF_TWO + n);
  }
  open();
  await until('the last notice ran', () => order.includes(students.at(-1) ?? ''));
});

t.test('abandoned commands begin one after the other, and healthy ones do not wait for them', async (t) => {
  const { open, opened: hold } = gate();
  const { stored, order } = await openQueues(t, { workers: 1, pollMs: 5, hold });
  const past = new Date(Date.now() - HOUR);
  const abandoned = await postNotices(stored, STUDENT, 3);
  const lease = { $set: { lockedUntil: past, nextRunAt: past, workerId: 'killed', attempts: 1, fence: 1 } };
  await stored.db.collection<{ _id: string }>(NOTICES).updateMany({ _id: { $in: abandoned } }, lease);
  await until('one has begun', () => order.length === 1);
  const [healthy] = await postNotices(stored, STUDENT, 1);
  await until('a healthy one has begun', () => order.length === 2);
  t.equal(order[1], healthy, 'the free slot is for healthy commands while an abandoned one runs');
  open();
  await until('each has run', () => order.length === 4);
});
