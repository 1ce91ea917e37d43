import t, { type Test } from 'tap';
import { testKernel } from '#testing/actors/test-kernel.ts';
import { postJob } from '#testing/stored/stored-jobs.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { gate, until } from '#testing/until.ts';
import type { Actor } from './actor.ts';
import { openWorker } from './worker.ts';

const HOUR_MS = 3_600_000;

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
    const command = await postJob(mongo, { runAt: Date.now() - HOUR_MS + n * 1_000, request: { organizationId } });
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
  const worker = openWorker(kernel, actor, { concurrency, pollMs: HOUR_MS, now: Date.now });
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
