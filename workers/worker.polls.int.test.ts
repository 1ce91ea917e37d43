import t, { type Test } from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { NOTICES, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommand, postCommandsIn } from '#infra/mongo/mailbox/mailbox.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { newId } from '#shared/kernel/ids.ts';
import { testKernel } from '#testing/actors/test-kernel.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { countCommands } from '#testing/stores/counted-commands.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { gate, until } from '#testing/until.ts';
import type { Actor } from './actor.ts';
import { openWorker } from './worker.ts';

const STUDENT = 'gradenotices:student';
const PARENT = 'gradenotices:parent';
const HOUR_MS = 3_600_000;
const SLOTS = 2;

/** Posts due notices of a queue, each a second younger than the one before. */
async function post(mongo: TestMongo, queue: typeof STUDENT | typeof PARENT, count: number) {
  const [notice] = gradeNotices(sampleAttempt());
  if (notice === undefined) throw new Error('an attempt has no notice');
  const commands = Array.from({ length: count }, (_, n) =>
    newCommand({
      queue,
      key: newId(),
      subject: queue,
      body: notice,
      maxAttempts: 3,
      now: Date.now() - HOUR_MS + n * 1_000,
    }),
  );
  await inTransaction(mongo, 30_000, (session) => postCommandsIn(mongo, session, commands));
  return commands.map(({ _id }) => _id);
}

/** Opens workers that serve both queues of notices, and counts their MongoDB commands. `hold` delays the end of the runs of a queue. */
async function scene(t: Test, { workers, pollMs, hold }: { workers: number; pollMs: number; hold?: Promise<void> }) {
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
      concurrency: SLOTS,
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
  const { mongo, sent, opened } = await scene(t, { workers, pollMs: HOUR_MS });
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
      return { kind: 'snooze', afterMs: HOUR_MS } as const;
    };
    const handlers = { [one]: snooze, [two]: snooze };
    const actor: Actor = { name: one, backoff: { baseMs: 1, capMs: 1 }, handlers };
    for (const queue of [one, two])
      await postCommand(
        mongo,
        newCommand({ queue, key: newId(), subject: 's', body: {} as never, maxAttempts: 3, now: 0 }),
      );
    const options = { concurrency: SLOTS, pollMs: HOUR_MS, now: Date.now, pollsTogether: true };
    const worker = openWorker(testKernel(mongo), actor, options);
    t.teardown(() => worker.drain());
    await until('both queues were polled', () => ran.length === 2);
    t.strictSame(ran.sort(), [one, two]);
  }
});

t.test('a backlog of one queue that fills the list does not hide the other queue, and keeps its order', async (t) => {
  const { stored, order, opened } = await scene(t, { workers: 1, pollMs: HOUR_MS });
  const [worker] = opened;
  const backlog = await post(stored, STUDENT, 220);
  const [later] = await post(stored, PARENT, 221).then((ids) => ids.slice(-1));
  await worker?.poll();
  await worker?.idle();
  t.equal(new Set(order).size, 441, 'each ran');
  t.equal(order.length, 441, 'each ran once');
  const students = order.filter((id) => backlog.includes(id));
  t.ok(
    students.every((id, at) => Math.abs(at - backlog.indexOf(id)) < 10 * SLOTS),
    'longest due first',
  );
  t.ok(order.indexOf(String(later)) > order.length / 2);
});

t.test('a queue whose slots hang does not delay the polls of the other, and goes on once a slot is free', async (t) => {
  const { open, opened: hold } = gate();
  const { stored, order } = await scene(t, { workers: 1, pollMs: 5, hold });
  const students = await post(stored, STUDENT, SLOTS + 1);
  await until('the slots of one queue hang', () => order.length === SLOTS);
  for (let n = 1; n <= 3; n++) {
    await post(stored, PARENT, 1);
    await until('a notice of the other queue ran', () => order.length === SLOTS + n);
  }
  open();
  await until('the last notice ran', () => order.includes(students.at(-1) ?? ''));
});

t.test('abandoned commands begin one after the other, and healthy ones do not wait for them', async (t) => {
  const { open, opened: hold } = gate();
  const { stored, order } = await scene(t, { workers: 1, pollMs: 5, hold });
  const past = new Date(Date.now() - HOUR_MS);
  const abandoned = await post(stored, STUDENT, 3);
  const lease = { $set: { lockedUntil: past, nextRunAt: past, workerId: 'killed', attempts: 1, fence: 1 } };
  await stored.db.collection<{ _id: string }>(NOTICES).updateMany({ _id: { $in: abandoned } }, lease);
  await until('one has begun', () => order.length === 1);
  const [healthy] = await post(stored, STUDENT, 1);
  await until('a healthy one has begun', () => order.length === 2);
  t.equal(order[1], healthy, 'the free slot is for healthy commands while an abandoned one runs');
  open();
  await until('each has run', () => order.length === 4);
});
