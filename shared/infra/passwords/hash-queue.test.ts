import t from 'tap';
import { fairQueue, HasherBusy, type Lane } from './fair-queue.ts';
import { type HashLane, type HashQueueOptions, hashQueue } from './hash-queue.ts';

type Cargo = 'log' | 'ship';

const lane = (kind: Cargo, address: string): Lane<Cargo> => ({ kind, address, account: null });

/** A queue of two places whose pieces of work end when the test ends them. */
function twoPlaces(total = Number.POSITIVE_INFINITY) {
  const limits = { total, ofAddress: total, ofAccount: total };
  const queue = fairQueue<Cargo>({
    lines: { log: limits, ship: limits },
    mayStart: (_kind, { log, ship }) => log + ship < 2,
  });
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const enter = (kind: Cargo, address: string, name: string) =>
    queue.run(lane(kind, address), () => {
      begun.push(name);
      return new Promise<void>((end) => void ends.push(end));
    });
  async function drain(): Promise<void> {
    for (let next = 0; next < ends.length; next += 1) {
      ends[next]?.();
      await new Promise(setImmediate);
    }
  }
  return { queue, begun, enter, drain };
}

t.test('addresses take turns within a kind, and kinds with each other', async (t) => {
  const { begun, enter, drain, queue } = twoPlaces();
  const flood = ['a1', 'a2', 'a3', 'a4', 'a5'].map((name) => enter('log', '203.0.113.7', name));
  const others = [
    enter('log', '198.51.100.7', 'b1'),
    enter('log', '192.0.2.7', 'c1'),
    enter('ship', '203.0.113.7', 's1'),
  ];
  await new Promise(setImmediate);
  t.strictSame(begun, ['a1', 'a2']);
  t.strictSame(queue.load(), { log: { running: 2, waiting: 5 }, ship: { running: 0, waiting: 1 } });
  await drain();
  t.strictSame(begun, ['a1', 'a2', 'a3', 's1', 'b1', 'c1', 'a4', 'a5']);
  await Promise.all([...flood, ...others]);
});

t.test('work that a newcomer of another network displaces is refused while it waits', async (t) => {
  const { begun, enter, drain, queue } = twoPlaces(2);
  const flood = ['a1', 'a2', 'a3', 'a4'].map((name, n) => enter('log', `2001:db8:a:${n}::/64`, name));
  t.equal(queue.hasRoom(lane('log', '2001:db8:a:4::/64')), false, 'a further network of the same customer');
  t.equal(queue.hasRoom(lane('log', '2001:db8:b:0::/64')), true);
  const home = enter('log', '2001:db8:b:0::/64', 'home');
  await t.rejects(flood[3] as Promise<void>, HasherBusy);
  await t.rejects(enter('log', '2001:db8:a:4::/64', 'a5'), HasherBusy);
  await drain();
  await Promise.all([...flood.slice(0, 3), home]);
  t.strictSame(begun, ['a1', 'a2', 'a3', 'home']);
});

t.test('work that fails lets the next piece in', async (t) => {
  const { queue } = twoPlaces();
  const fail = () => queue.run(lane('log', 'a'), () => Promise.reject(new Error('no memory')));
  const failing = Array.from({ length: 5 }, fail);
  const last = queue.run(lane('log', 'a'), async () => 'last');
  for (const failed of failing) await t.rejects(failed, /no memory/);
  t.equal(await last, 'last');
});

const known = (address: string, account: string | null = null): HashLane => ({ kind: 'known', address, account });
const stranger = (address: string): HashLane => ({ kind: 'stranger', address, account: null });
const registration = (address: string): HashLane => ({ kind: 'registration', address, account: null });

/** A queue whose pieces of work end when the test ends them. */
function heldQueue(options: HashQueueOptions) {
  const queue = hashQueue(options);
  const started: { name: string; end: () => void }[] = [];
  const ended: Promise<unknown>[] = [];
  return {
    started,
    names: () => started.map(({ name }) => name),
    /** Returns false if the lane refuses the piece at once. */
    async enter(lane: HashLane, name: string): Promise<boolean> {
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
    t.equal(await queue.enter(registration('attacker'), 'registration'), true);
    await queue.drain();
    const order = queue.names();
    t.ok(order.indexOf('registration') <= 4, `${order}`);
    t.ok(order.indexOf('home') <= 5, `${order}`);
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

t.test('sixty known pairs of one address wait, six registrations and six strangers, and no more', async (t) => {
  for (const [lane, places] of [
    [known('school'), 60],
    [registration('school'), 6],
    [stranger('school'), 6],
  ] as const) {
    const queue = heldQueue({ concurrency: 1 });
    for (let n = 0; n <= places; n++) t.equal(await queue.enter(lane, `${n}`), true);
    t.equal(await queue.enter(lane, 'one too many'), false, lane.kind);
    await queue.drain();
    t.equal(queue.started.length, places + 1);
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

t.test('one account has six places, from however many addresses it comes', async (t) => {
  const queue = heldQueue({ concurrency: 1 });
  for (let n = 0; n < 7; n++) t.equal(await queue.enter(known(`${n}`, 'eve'), `eve ${n}`), true);
  t.equal(await queue.enter(known('7', 'eve'), 'one too many'), false);
  t.equal(await queue.enter(known('7', 'an'), 'an'), true);
  await queue.drain();
});

/** A queue of one slot for strangers and registrations and one for known pairs; its pauses end when the test ends them. */
function pausedQueue() {
  const pauses: { ms: number; end: () => void }[] = [];
  const pause = (ms: number) => new Promise<void>((end) => void pauses.push({ ms, end }));
  return { pauses, queue: hashQueue({ concurrency: 2, kept: 1, pause }) };
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
    await queue.run(registration('a'), async () => void done.push('registration'));
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
    registration('a'),
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
