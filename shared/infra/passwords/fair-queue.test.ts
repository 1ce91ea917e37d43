import fc from 'fast-check';
import t from 'tap';
import { type FairQueueOptions, fairQueue, HasherBusy, type Lane, REGISTRATION } from './fair-queue.ts';

const known = (name: string, account: string | null = null): Lane => ({ kind: 'known', name, account });
const stranger = (name: string): Lane => ({ kind: 'stranger', name, account: null });

/** A queue whose pieces of work end when the test ends them. */
function heldQueue(options: FairQueueOptions) {
  const queue = fairQueue(options);
  const started: { name: string; end: () => void }[] = [];
  const ended: Promise<unknown>[] = [];
  return {
    started,
    names: () => started.map(({ name }) => name),
    /** Returns false if the lane refuses the piece at once. */
    async enter(lane: Lane, name: string): Promise<boolean> {
      const hadRoom = queue.hasRoom(lane);
      const done = queue.run(lane, () => new Promise<void>((end) => void started.push({ name, end })));
      const isBusy = await Promise.race([
        done.then(
          () => false,
          (error) => error instanceof HasherBusy,
        ),
        new Promise<boolean>((resolve) => setImmediate(resolve, false)),
      ]);
      if (isBusy === hadRoom) throw new Error(`${name}: the queue ${isBusy ? 'refuses' : 'accepts'} it unannounced`);
      if (!isBusy) ended.push(done);
      return !isBusy;
    },
    /** Ends everything that runs, again and again, until nothing waits. */
    async drain(): Promise<void> {
      for (let next = 0; next < started.length; next += 1) {
        started[next]?.end();
        await new Promise(setImmediate);
      }
      await Promise.all(ended);
    },
  };
}

t.test(
  'ninety strangers of one address hold up neither another address, nor a known pair, nor a registration',
  async (t) => {
    const queue = heldQueue({ concurrency: 3, kept: 1 });
    const accepted: boolean[] = [];
    for (let n = 0; n < 90; n++) accepted.push(await queue.enter(stranger('attacker'), `attack ${n}`));
    t.equal(accepted.filter(Boolean).length, 2 + 6, 'two run and six wait; one slot is kept');
    t.equal(await queue.enter(known('school'), 'known'), true);
    t.strictSame(queue.names(), ['attack 0', 'attack 1', 'known'], 'which runs at once');
    t.equal(await queue.enter(stranger('home'), 'home'), true);
    t.equal(await queue.enter(REGISTRATION, 'registration'), true);
    await queue.drain();
    const order = queue.names();
    t.ok(order.indexOf('home') <= 4, `${order}`);
    t.ok(order.indexOf('registration') <= 5, `${order}`);
  },
);

t.test('a slot stays free for known pairs, and they may use every slot', async (t) => {
  const queue = heldQueue({ concurrency: 3, kept: 1 });
  for (let n = 0; n < 3; n++) await queue.enter(stranger(`${n}`), `stranger ${n}`);
  t.equal(queue.started.length, 2);
  await queue.enter(known('school'), 'known 0');
  t.equal(queue.started.length, 3);
  await queue.drain();
  for (let n = 1; n < 4; n++) await queue.enter(known('school'), `known ${n}`);
  t.strictSame(queue.names().slice(-3), ['known 1', 'known 2', 'known 3']);
  await queue.drain();
});

t.test('sixty registrations and sixty known pairs of one address wait, and no more', async (t) => {
  for (const lane of [REGISTRATION, known('school')]) {
    const queue = heldQueue({ concurrency: 1 });
    for (let n = 0; n < 61; n++) t.equal(await queue.enter(lane, `${n}`), true);
    t.equal(await queue.enter(lane, 'one too many'), false);
    await queue.drain();
    t.equal(queue.started.length, 61);
  }
});

t.test('one account of a school has six places in its lane, however many requests it sends', async (t) => {
  const queue = heldQueue({ concurrency: 3, kept: 1 });
  const accepted: boolean[] = [];
  for (let n = 0; n < 90; n++) accepted.push(await queue.enter(known('school', 'eve'), `eve ${n}`));
  t.equal(accepted.filter(Boolean).length, 3 + 6, 'three run and six wait');
  for (let n = 0; n < 54; n++) t.equal(await queue.enter(known('school', `pupil ${n}`), `pupil ${n}`), true);
  t.equal(await queue.enter(known('school', 'one too many'), 'x'), false, 'the lane itself has sixty places');
  await queue.drain();
  t.equal(await queue.enter(known('school', 'eve'), 'eve again'), true, 'places that became free may be used again');
  await queue.drain();
});

t.test('at most sixty lanes of strangers wait, and a known pair still finds a lane', async (t) => {
  const queue = heldQueue({ concurrency: 1 });
  for (let n = 0; n < 61; n++) t.equal(await queue.enter(stranger(`${n}`), `${n}`), true);
  t.equal(await queue.enter(stranger('one too many'), 'x'), false);
  t.equal(await queue.enter(stranger('7'), 'in a lane that exists'), true);
  t.equal(await queue.enter(known('school'), 'known'), true);
  await queue.drain();
});

t.test('work that fails frees its slot', async (t) => {
  const queue = fairQueue({ concurrency: 1, waiting: { registration: 0 } });
  const fail = () => queue.run(REGISTRATION, () => Promise.reject(new Error('no memory')));
  await t.rejects(fail(), /no memory/);
  await t.rejects(fail(), /no memory/, 'not busy');
});

/** A queue of one slot for strangers and registrations and one for known pairs; its pauses end when the test ends them. */
function pausedQueue() {
  const pauses: { ms: number; end: () => void }[] = [];
  const pause = (ms: number) => new Promise<void>((end) => void pauses.push({ ms, end }));
  return { pauses, queue: fairQueue({ concurrency: 2, kept: 1, pause }) };
}

t.test(
  'after a wrong password of a stranger, the slot is closed to strangers and open to known pairs and registrations',
  async (t) => {
    const { queue, pauses } = pausedQueue();
    const done: string[] = [];
    const guess = (name: string) =>
      queue.run(
        stranger(name),
        async () => void done.push(name),
        () => true,
      );
    await guess('first');
    t.equal(pauses.length, 1);
    const second = guess('second');
    await queue.run(REGISTRATION, async () => void done.push('registration'));
    await Promise.all(['a', 'b'].map((name) => queue.run(known(name), async () => void done.push(name))));
    t.strictSame(done, ['first', 'registration', 'a', 'b']);
    pauses[0]?.end();
    await second;
    t.equal(done.at(-1), 'second');
  },
);

t.test('the pause is as long as the work, and only wrong passwords of strangers cause one', async (t) => {
  const { queue, pauses } = pausedQueue();
  const from = performance.now();
  await queue.run(
    stranger('a'),
    () => new Promise((resolve) => setTimeout(resolve, 20)),
    () => true,
  );
  const [pause] = pauses;
  t.ok(pause !== undefined && pause.ms > 15 && pause.ms <= performance.now() - from, `${pause?.ms} ms`);
  pause?.end();
  await new Promise(setImmediate);
  await queue.run(
    stranger('a'),
    async () => true,
    () => false,
  );
  await queue.run(
    known('a'),
    async () => false,
    () => true,
  );
  await queue.run(
    REGISTRATION,
    async () => false,
    () => true,
  );
  await t.rejects(
    queue.run(
      stranger('a'),
      () => Promise.reject(new Error('no memory')),
      () => true,
    ),
  );
  t.equal(pauses.length, 1);
});

t.test('every accepted piece of work runs, and each waiting lane is served within one round', async () => {
  const lane = fc.oneof(
    fc.nat(4).map((n) => stranger(`${n}`)),
    fc.nat(2).map((n) => known(`${n}`)),
    fc.constant(REGISTRATION),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(lane, { maxLength: 60 }), async (wanted) => {
      const queue = heldQueue({ concurrency: 1 });
      const accepted: string[] = [];
      for (const [n, { kind, name }] of wanted.entries()) {
        if (await queue.enter({ kind, name, account: null }, `${kind} ${name}#${n}`))
          accepted.push(`${kind} ${name}#${n}`);
      }
      await queue.drain();
      const order = queue.names();
      // The first piece ran before any other arrived; then every lane has one piece before any lane has two.
      const lanes = order.slice(1).map((entry) => entry.split('#')[0]);
      const distinct = new Set(lanes).size;
      return (
        [...order].sort().join() === [...accepted].sort().join() && new Set(lanes.slice(0, distinct)).size === distinct
      );
    }),
    { numRuns: 30 },
  );
});
