import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { actorOf, type Command } from '#shared/kernel/command.ts';
import { until } from '#testing/until.ts';
import { ACTORS } from './actors.ts';
import { holdLease } from './life.ts';
import { startLoop } from './loop.ts';
import { turnsByOrganization } from './turns.ts';

const EVERY_MS = 10_000;

/** Mocks the time of a test. */
function mockTime(t: Test): void {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
}

/** Lets the mocked time pass, and the promises that it settles. */
async function pass(ms: number): Promise<void> {
  mock.timers.tick(ms);
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
}

t.test('the first turn runs at once, the second after the phase, and the others in the rhythm', async (t) => {
  mockTime(t);
  let turns = 0;
  const loop = startLoop({ everyMs: EVERY_MS, phase: 0.5 }, async () => {
    turns += 1;
  });
  await pass(0);
  t.equal(turns, 1);
  await pass(EVERY_MS * 0.4);
  t.equal(turns, 1);
  await pass(EVERY_MS * 0.1);
  t.equal(turns, 2);
  await pass(EVERY_MS * 0.9);
  t.equal(turns, 2);
  await pass(EVERY_MS * 0.1);
  t.equal(turns, 3);
  loop.stop();
  await pass(EVERY_MS * 2);
  t.equal(turns, 3);
});

t.test('a turn that is in progress delays the next one, and a stop during it ends the loop', async (t) => {
  mockTime(t);
  const { promise, resolve } = Promise.withResolvers<void>();
  let turns = 0;
  const loop = startLoop({ everyMs: EVERY_MS, phase: 0 }, () => {
    turns += 1;
    return promise;
  });
  await pass(0);
  await pass(EVERY_MS * 3);
  t.equal(turns, 1);
  loop.stop();
  resolve();
  await pass(EVERY_MS);
  t.equal(turns, 1);
});

/** Returns due commands of organizations named by letters: `aab` are a-0, a-1 and b-2. */
const dueOf = (letters: string) => [...letters].map((letter, n) => ({ _id: `${letter}-${n}`, organizationId: letter }));

t.test('one slot goes round the organizations, within one by age', async (t) => {
  const turns = turnsByOrganization();
  let due = dueOf('aaaabbc');
  const order: string[] = [];
  while (due.length > 0) {
    const [next] = turns.take(due, 1);
    order.push(next?._id ?? '');
    turns.end(next?._id ?? '');
    due = due.filter((command) => command !== next);
  }
  t.strictSame(order, ['a-0', 'b-4', 'c-6', 'a-1', 'b-5', 'a-2', 'a-3']);
});

t.test('several slots go to different organizations', async (t) => {
  const turns = turnsByOrganization();
  const due = dueOf('aaaaabc');
  t.strictSame(
    turns.take(due, 3).map(({ _id }) => _id),
    ['a-0', 'b-5', 'c-6'],
  );
  t.strictSame(
    turns.take(due, 5).map(({ _id }) => _id),
    ['a-1', 'a-2', 'a-3', 'a-4'],
    'running commands are taken once',
  );
});

t.test('an organization whose run is slow gets no second slot before the others', async (t) => {
  const turns = turnsByOrganization();
  const due = dueOf('sqqqqss');
  turns.take(due, 2);
  for (const [ended, expected] of [
    ['q-1', 'q-2'],
    ['q-2', 'q-3'],
  ] as const) {
    turns.end(ended);
    const left = due.filter(({ _id }) => _id > ended || _id.startsWith('s'));
    t.strictSame(
      turns.take(left, 1).map(({ _id }) => _id),
      [expected],
    );
  }
});

t.test('commands without an organization take turns as one', async (t) => {
  const turns = turnsByOrganization();
  const due = [...dueOf('aa'), { _id: 'sweep', organizationId: null }];
  t.strictSame(
    turns.take(due, 2).map(({ _id }) => _id),
    ['a-0', 'sweep'],
  );
});

t.test('a failed lease renewal is reported once and repeated; a refused one loses the lease', async (t) => {
  const outage = new Error('away');
  const told: unknown[] = [];
  let tries = 0;
  const lease = holdLease({ _id: 'c-1' } as Command, {
    leaseMs: 30,
    async renew() {
      tries += 1;
      if (tries <= 3) throw outage;
      return tries <= 5;
    },
    failed: (error) => void told.push(error),
    stop: new AbortController().signal,
  });
  t.teardown(lease.end);
  await until('three have failed', () => tries >= 3);
  t.equal(lease.lost(), false, 'a lease is not lost by an outage');
  await until('refused', () => lease.lost());
  t.ok(lease.signal.aborted);
  t.equal(tries, 6);
  t.strictSame(told, [outage]);
});

t.test('every queue is named after an existing actor, and every actor has a queue', async (t) => {
  t.strictSame([...new Set(QUEUES.map(actorOf))].sort(), Object.keys(ACTORS).sort());
});

t.test('every actor has a crash-point suite', async (t) => {
  // Each has its own file, so that the files can run in parallel.
  const found = globSync('*/crash-points.e2e.test.ts', { cwd: import.meta.dirname }).map((file) => {
    const text = readFileSync(path.join(import.meta.dirname, file), 'utf8');
    return /crashSuite\(t, '(\w+)'/.exec(text)?.[1] ?? `none in ${file}`;
  });
  t.strictSame(found.sort(), Object.keys(ACTORS).sort());
});
