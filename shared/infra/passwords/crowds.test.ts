import t from 'tap';
import { countedAs } from '#infra/net/ip-address.ts';
import { openAddressBook } from '#shared/auth/address-book.ts';
import { spacingOf } from '#shared/auth/address-rule.ts';
import { waitAfter } from '#shared/auth/throttle.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { HasherBusy } from './fair-queue.ts';
import { hashQueue, type LaneKind } from './hash-queue.ts';

/** Time that passes only when nothing else can happen. */
interface VirtualTime {
  /** Milliseconds since the beginning. */
  now(): number;
  /** Resolves after `ms` of this time. */
  pause(ms: number): Promise<void>;
  /** Passes time until nothing is due before `endMs`. @throws an error of work that the test started with `spawn` */
  run(endMs: number): Promise<void>;
  /** Starts work whose failure ends the run. */
  spawn(work: () => Promise<void>): void;
}

/** Opens a clock for simulations of hours in a second. */
function virtualTime(): VirtualTime {
  /** Times and what is due then, the next one last. */
  const due: { at: number; resolve: () => void }[] = [];
  let now = 0;
  let failure: { error: unknown } | undefined;

  function pause(ms: number): Promise<void> {
    const at = now + ms;
    const { promise, resolve } = Promise.withResolvers<void>();
    let [from, to] = [0, due.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((due[middle]?.at ?? 0) > at) from = middle + 1;
      else to = middle;
    }
    due.splice(from, 0, { at, resolve });
    return promise;
  }

  return {
    now: () => now,
    pause,
    spawn(work) {
      work().catch((error: unknown) => {
        failure ??= { error };
      });
    },
    async run(endMs) {
      for (;;) {
        // Whatever the last event has caused happens at its time.
        await new Promise(setImmediate);
        if (failure !== undefined) throw failure.error;
        const next = due.at(-1);
        if (next === undefined || next.at > endMs) break;
        due.pop();
        now = next.at;
        next.resolve();
      }
      now = endMs;
    },
  };
}

/** One hash at the default cost. */
const HASH_MS = 250;
/** A client that shows no reply any more. */
const PATIENCE_MS = 15 * SECOND;
const SCHOOL = '203.0.113.7';

/** A front door on two processors: one slot for strangers and registrations, two that are kept for known pairs. */
function frontDoor() {
  const time = virtualTime();
  const queue = hashQueue({ concurrency: 3, kept: 2, pause: time.pause, clock: time.now });

  /** Hashes a password. Returns false if the queue refuses it. */
  async function hash(kind: LaneKind, from: string, isRight: boolean): Promise<boolean> {
    const work = () => time.pause(HASH_MS).then(() => isRight);
    try {
      await queue.run({ kind, address: countedAs(from), account: null }, work, (right) => !right);
      return true;
    } catch (error) {
      if (error instanceof HasherBusy) return false;
      throw error;
    }
  }

  /** Sends one request after another over each of `connections`, from the address of its number. */
  function flood(connections: number, kind: LaneKind, addressOf: (nth: number) => string): void {
    let sent = 0;
    for (let n = 0; n < connections; n += 1) {
      time.spawn(async () => {
        while (await hash(kind, addressOf(sent++), false).then(() => true)) await time.pause(SECOND / 2);
      });
    }
  }

  /** Returns how long each of some honest callers waits for its hash; each repeats a refused request after a second. */
  async function waitsOf(kind: LaneKind, addresses: readonly string[], endMs: number): Promise<number[]> {
    const waits: number[] = [];
    for (const [n, address] of addresses.entries()) {
      time.spawn(async () => {
        await time.pause(MINUTE + n * SECOND);
        const from = time.now();
        while (!(await hash(kind, address, true))) await time.pause(SECOND);
        waits.push(time.now() - from);
      });
    }
    await time.run(endMs);
    return waits;
  }

  return { time, hash, flood, waitsOf, queue };
}

/** Ten addresses of ten networks. */
const HOMES = Array.from({ length: 10 }, (_, n) => `198.51.${n}.7`);

// With a lane for each /64, 60 of them closed the queue: eight of eight pupils on new networks were refused.
t.test('65,536 networks of one customer hold up no pupil on a new network', async (t) => {
  const { flood, waitsOf, queue } = frontDoor();
  flood(100, 'stranger', (nth) => `2001:db8:a:${((nth * 7919) % 65_536).toString(16)}::1`);
  const waits = await waitsOf('stranger', [...HOMES, '2001:db8:b::1', '2001:db8:c::1'], 3 * MINUTE);
  t.ok(queue.load().stranger.waiting > 50, 'the attack lasts');
  t.equal(waits.length, 12);
  t.ok(Math.max(...waits) < 3 * SECOND, `${waits}`);
});

t.test('sixty networks at once hold up a pupil for less than its patience, and refuse none', async (t) => {
  const { flood, waitsOf } = frontDoor();
  flood(360, 'stranger', (nth) => `192.0.${nth % 60}.${(nth * 31) % 256}`);
  const waits = await waitsOf('stranger', HOMES.slice(0, 1), 5 * MINUTE);
  t.equal(waits.length, 1);
  t.ok((waits[0] ?? 0) < 2 * 60 * HASH_MS + PATIENCE_MS, `${waits}: a hash and a pause for each network`);
});

// With one line for all registrations, ten of ten honest ones were refused.
t.test('ninety connections that register from one address hold up no other address', async (t) => {
  const { flood, waitsOf } = frontDoor();
  flood(90, 'registration', () => SCHOOL);
  const waits = await waitsOf('registration', HOMES, 2 * MINUTE);
  t.equal(waits.length, HOMES.length);
  t.ok(Math.max(...waits) < 3 * SECOND, `${waits}`);
});

/**
 * The login of a front door for strangers from one address. Returns the ms of `Retry-After` of a
 * refusal, as the throttles of account and address and the hash queue decide.
 */
function strangersOf({ time, hash, queue }: ReturnType<typeof frontDoor>, address: string) {
  const book = openAddressBook();
  const accounts = new Map<string, { failures: number; blockedUntil: number }>();
  const inSeconds = (ms: number) => Math.ceil(ms / SECOND) * SECOND;

  return async (account: string, isRight: boolean): Promise<number | 'right' | 'wrong'> => {
    if (!queue.hasRoom({ kind: 'stranger', address, account })) return SECOND;
    const own = accounts.get(account) ?? { failures: 0, blockedUntil: 0 };
    if (own.blockedUntil > time.now()) return inSeconds(own.blockedUntil - time.now());
    const spacing = spacingOf(book.countsOf(address, time.now()));
    const waitMs = spacing === 0 ? 0 : book.takeTurn(address, spacing, time.now());
    if (waitMs > 0) return inSeconds(waitMs);
    if (!(await hash('stranger', address, isRight))) return SECOND;
    const failures = isRight ? 0 : own.failures + 1;
    accounts.set(account, { failures, blockedUntil: time.now() + waitAfter(failures) });
    const note = isRight ? book.noteSuccess : book.noteFailure;
    note(address, account, time.now());
    return isRight ? 'right' : 'wrong';
  };
}

/** Half a percent of the pupils mistype seven times, and five percent once. */
function slipsOf(pupil: number): number {
  if (pupil % 200 === 0) return 7;
  return pupil % 20 === 0 ? 1 : 0;
}

for (const [day, pupils, invented] of [
  ['on its first Monday', 2_000, 0],
  ['beside one who has invented 150 e-mails', 600, 150],
] as const) {
  t.test(`${pupils} pupils behind one address, none of them known, are in within half an hour ${day}`, async (t) => {
    const door = frontDoor();
    const { time } = door;
    const login = strangersOf(door, SCHOOL);
    const inAt: number[] = [];

    /** Signs in as a person does: types again after 20 s, and a second after the reply permits it. */
    async function signIn(account: string, slips: number): Promise<void> {
      for (let wrong = slips; ; ) {
        const reply = await login(account, wrong === 0);
        if (reply === 'right') return;
        if (reply === 'wrong') wrong -= 1;
        await time.pause(reply === 'wrong' ? 20 * SECOND : reply + SECOND);
      }
    }

    time.spawn(async () => {
      for (let n = 0; n < invented; n += 1)
        while ((await login(`invented ${n}`, false)) !== 'wrong') await time.pause(SECOND);
    });
    for (let pupil = 0; pupil < pupils; pupil += 1) {
      time.spawn(async () => {
        await time.pause(MINUTE + (pupil * 5 * MINUTE) / pupils);
        await signIn(`pupil ${pupil}`, slipsOf(pupil));
        inAt.push(time.now() - MINUTE);
      });
    }
    await time.run(60 * MINUTE);
    t.equal(inAt.length, pupils);
    const last = Math.max(...inAt) / MINUTE;
    t.ok(last <= 30, `${last} minutes`);
    t.comment(`the last one after ${last.toFixed(1)} minutes`);
  });
}
