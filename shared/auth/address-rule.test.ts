import fc from 'fast-check';
import t from 'tap';
import { HOUR, MINUTE, SECOND } from '#shared/kernel/time.ts';
import { openAddressBook } from './address-book.ts';
import { REGISTRATIONS, registrationSpacingOf, STRANGERS, spacingOf } from './address-rule.ts';
import { FREE_FAILURES, MAX_VERIFIED, waitAfter } from './throttle.ts';

const SCHOOL = '203.0.113.7';
const EIGHT = 8 * HOUR;

t.test('strangers wait only beyond fifty accounts plus those that succeeded, one second or ten', async (t) => {
  for (const [failed, succeeded, spacing] of [
    [0, 0, 0],
    [50, 0, 0],
    [51, 0, 1_000],
    [500, 0, 1_000],
    [501, 0, 10_000],
    [10_000, 0, 10_000],
    [150, 100, 0],
    [151, 100, 1_000],
    [500, 449, 1_000],
    [550, 500, 0],
    [551, 500, 10_000],
  ] as const) {
    t.equal(spacingOf({ failed, succeeded }), spacing, `${failed} failed, ${succeeded} succeeded`);
  }
});

t.test('a success never lengthens the spacing, a failure never shortens it, and ten seconds are the most', async () => {
  const count = fc.nat(2_000);
  fc.assert(
    fc.property(count, count, (failed, succeeded) => {
      const spacing = spacingOf({ failed, succeeded });
      const isBounded = spacing === 0 || (spacing >= SECOND && spacing <= 10 * SECOND && Number.isInteger(spacing));
      return (
        isBounded &&
        spacingOf({ failed: failed + 1, succeeded }) >= spacing &&
        spacingOf({ failed, succeeded: succeeded + 1 }) <= spacing
      );
    }),
  );
});

t.test('registrations wait beyond sixty accepted or sixty taken ones, ten seconds only beyond 500 taken', async (t) => {
  for (const [taken, accepted, spacing] of [
    [0, 0, 0],
    [0, 59, 0],
    [59, 59, 0],
    [0, 60, 1_000],
    [60, 0, 1_000],
    [0, 10_000, 1_000],
    [500, 0, 1_000],
    [501, 0, 10_000],
  ] as const) {
    const counts = { failed: taken, succeeded: accepted };
    t.equal(registrationSpacingOf(counts), spacing, `${taken} taken, ${accepted} accepted`);
  }
});

t.test(
  'the address book counts each account once and for 24 hours, and forgets a failure after a success',
  async () => {
    const outcome = fc.record({ account: fc.nat(5), isRight: fc.boolean(), afterMs: fc.nat(6 * HOUR) });
    fc.assert(
      fc.property(fc.array(outcome, { maxLength: 40 }), (outcomes) => {
        const book = openAddressBook();
        let now = 0;
        const failed = new Map<number, number>();
        const succeeded = new Map<number, number>();
        for (const { account, isRight, afterMs } of outcomes) {
          now += afterMs;
          if (isRight) {
            book.noteSuccess(SCHOOL, `${account}`, now);
            succeeded.set(account, now);
            failed.delete(account);
          } else {
            book.noteFailure(SCHOOL, `${account}`, now);
            failed.set(account, now);
          }
        }
        const fresh = (times: Map<number, number>) =>
          [...times.values()].filter((at) => now - at < STRANGERS.windowMs).length;
        const counts = book.countsOf(SCHOOL, now);
        return counts.failed === fresh(failed) && counts.succeeded === fresh(succeeded);
      }),
    );
  },
);

t.test('a full address book forgets the address that was silent for longest', async (t) => {
  const book = openAddressBook(10);
  for (let n = 0; n < 4; n++) book.noteFailure('first', `${n}`, n);
  for (let n = 0; n < 6; n++) book.noteFailure('second', `${n}`, 10 + n);
  t.same([book.countsOf('first', 20).failed, book.countsOf('second', 20).failed], [4, 6]);
  book.noteFailure('third', 'x', 20);
  t.same(
    ['first', 'second', 'third'].map((address) => book.countsOf(address, 20).failed),
    [0, 6, 1],
  );
  for (let n = 0; n < 1_000; n++) book.noteFailure('third', `${n}`, 20 + n);
  t.ok(book.countsOf('third', 1_100).failed <= 11, 'also within one address');
});

/** Runs login attempts of strangers in the order of their times. Each returns the time of its repeat, or undefined. */
function simulate(tries: { at: number; run: (now: number) => number | undefined }[], until: number): void {
  const due = [...tries].sort((one, other) => other.at - one.at);
  for (let next = due.pop(); next !== undefined && next.at < until; next = due.pop()) {
    const again = next.run(next.at);
    if (again === undefined) continue;
    const later = { at: again, run: next.run };
    const place = due.findLastIndex(({ at }) => at > again);
    due.splice(place + 1, 0, later);
  }
}

/** Returns the whole seconds of `Retry-After` (0: the attempt is verified), as the front door decides. */
function retryAfter(book: ReturnType<typeof openAddressBook>, now: number): number {
  const spacing = spacingOf(book.countsOf(SCHOOL, now));
  return spacing === 0 ? 0 : Math.ceil(book.takeTurn(SCHOOL, spacing, now) / SECOND);
}

/** Pupils who arrive within five minutes after eight; every twentieth mistypes its first password. Returns when the last is in. */
function morning(book: ReturnType<typeof openAddressBook>, pupils: number): number {
  let lastAt = 0;
  const arrivals = Array.from({ length: pupils }, (_, pupil) => {
    let slips = pupil % 20 === 0 ? 1 : 0;
    return {
      at: EIGHT + Math.floor((pupil * 5 * MINUTE) / pupils),
      run(now: number) {
        const wait = retryAfter(book, now);
        if (wait > 10) throw new Error(`a pupil was told to wait ${wait} s`);
        if (wait > 0) return now + wait * SECOND;
        if (slips-- > 0) {
          book.noteFailure(SCHOOL, `pupil ${pupil}`, now);
          return now + 20 * SECOND;
        }
        book.noteSuccess(SCHOOL, `pupil ${pupil}`, now);
        lastAt = now;
        return undefined;
      },
    };
  });
  simulate(arrivals, EIGHT + 24 * HOUR);
  return lastAt - EIGHT;
}

t.test('a school of 2,000 strangers behind one address is signed in within half an hour', async (t) => {
  const book = openAddressBook();
  t.ok(morning(book, 2_000) <= 6 * MINUTE, 'on an ordinary day as fast as they type');
  t.strictSame(book.countsOf(SCHOOL, EIGHT + HOUR), { failed: 0, succeeded: 2_000 });
});

t.test('a school is signed in within half an hour although a pupil has invented 150 e-mails', async (t) => {
  const book = openAddressBook();
  for (let n = 0; n < 150; n++) book.noteFailure(SCHOOL, `invented ${n}`, EIGHT - HOUR);
  const tookMs = morning(book, 2_000);
  t.ok(tookMs <= 30 * MINUTE, `${tookMs / MINUTE} minutes`);
});

t.test('a pupil who has invented 400 e-mails holds up no school for longer than half an hour', async (t) => {
  const book = openAddressBook();
  for (let n = 0; n < 400; n++) book.noteFailure(SCHOOL, `invented ${n}`, EIGHT - HOUR);
  const tookMs = morning(book, 600);
  t.ok(tookMs <= 30 * MINUTE, `${tookMs / MINUTE} minutes`);
});

t.test(
  'a sprayer with 10,000 accounts gets 9,096 verified attempts on its first day and 8,640 on the next',
  async (t) => {
    const book = openAddressBook();
    const verifiedAt: number[] = [];
    let account = 0;
    const sprayer = {
      at: 0,
      run(now: number) {
        const spacing = spacingOf(book.countsOf(SCHOOL, now));
        const wait = spacing === 0 ? 0 : book.takeTurn(SCHOOL, spacing, now);
        if (wait > 0) return now + wait;
        account = (account + 1) % 10_000;
        book.noteFailure(SCHOOL, `account ${account}`, now);
        verifiedAt.push(now);
        return now + 1;
      },
    };
    simulate([sprayer], 48 * HOUR);
    const within = (from: number) => verifiedAt.filter((at) => at >= from && at < from + 24 * HOUR).length;
    t.equal(within(0), 9_096);
    for (let hour = 1; hour <= 24; hour++) {
      t.ok(within(hour * HOUR) <= 8_640, `from hour ${hour}: ${within(hour * HOUR)}`);
    }
  },
);

/** Registers from one address, one after the other, as fast as the rule permits. Returns the times (ms) of the verified ones. */
function registering(outcome: 'noteFailure' | 'noteSuccess', count: number): number[] {
  const book = openAddressBook(undefined, REGISTRATIONS);
  const verifiedAt: number[] = [];
  for (let now = 0; verifiedAt.length < count; now += 100) {
    const spacing = registrationSpacingOf(book.countsOf(SCHOOL, now));
    if (spacing > 0 && book.takeTurn(SCHOOL, spacing, now) > 0) continue;
    book[outcome](SCHOOL, `account ${verifiedAt.length}`, now);
    verifiedAt.push(now);
  }
  return verifiedAt;
}

t.test('a school registers 2,000 pupils behind one address in 33 minutes', async (t) => {
  const [last = 0] = registering('noteSuccess', 2_000).slice(-1);
  t.ok(last <= 33 * MINUTE, `${last / MINUTE} minutes`);
});

t.test(
  'a caller who probes which e-mails are taken has 817 answers in an hour, of 43,200 without a limit',
  async (t) => {
    const inFirstHour = registering('noteFailure', 900).filter((at) => at < HOUR).length;
    t.equal(inFirstHour, 817);
  },
);

t.test('fewer than five failed logins cost no wait, then the wait doubles up to fifteen minutes', async (t) => {
  const waits = Array.from({ length: 17 }, (_, failures) => waitAfter(failures) / 1_000);
  t.strictSame(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
  t.equal(waitAfter(FREE_FAILURES - 1), 0);
  t.equal(waitAfter(MAX_VERIFIED), 900_000);
});

t.test('the wait after failed logins is whole, never decreases and is bounded for any count', async (t) => {
  fc.assert(
    fc.property(fc.nat(), (failures) => {
      const [wait, next] = [waitAfter(failures), waitAfter(failures + 1)];
      return Number.isInteger(wait) && wait >= 0 && wait <= next && next <= 900_000;
    }),
  );
  t.equal(waitAfter(Number.MAX_SAFE_INTEGER), 900_000);
});
