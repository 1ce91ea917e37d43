import t from 'tap';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { KNOWN_FOR_MS } from '#shared/auth/address-rule.ts';
import { FREE_FAILURES, MAX_VERIFIED, QUIET_MS, waitAfter } from '#shared/auth/throttle.ts';
import { HOUR, MINUTE, SECOND } from '#shared/kernel/time.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { knownPairs, throttles } from './collections.ts';
import {
  clearPairs,
  learnPair,
  openPairLookup,
  type Pair,
  pairOf,
  recordPairFailure,
  recordPairSuccess,
  refundPairAttempt,
  reservePairAttempt,
} from './known-pairs.ts';
import { recordFailure, recordSuccess, refundLoginAttempt, reserveLoginAttempt, throttleKey } from './throttle.ts';

const mongo = await openTestMongo(t);
/** A database of the known pairs, whose counts of strangers stay empty. */
const pairsMongo = await openTestMongo(t);
let emails = 0;

const freshKey = () => throttleKey(`an-${emails++}@school.vn`);
const reserve = (key: string) => reserveLoginAttempt(mongo, key, Date.now());
const rowOf = async (key: string) => throttles(mongo).findOne({ _id: key });
const allow = async (key: string) => (await reserve(key)).kind === 'granted';

/** Moves the times of the row back by `ms`. */
async function age(key: string, ms: number): Promise<void> {
  const row = await rowOf(key);
  if (row === null) throw new Error('there is no such row');
  const earlier = (date: Date) => new Date(date.getTime() - ms);
  const blockedUntil = row.blockedUntil === null ? null : earlier(row.blockedUntil);
  await throttles(mongo).updateOne({ _id: key }, { $set: { blockedUntil, lastTryAt: earlier(row.lastTryAt) } });
}

async function fail(key: string): Promise<void> {
  t.equal(await allow(key), true);
  await recordFailure(mongo, key);
}

t.test('of 150 concurrent login attempts a hundred are verified', async (t) => {
  const key = freshKey();
  const tries = await Promise.all(Array.from({ length: 150 }, () => reserve(key)));
  t.equal(tries.filter(({ kind }) => kind === 'granted').length, MAX_VERIFIED);
  t.equal((await throttles(mongo).find({ _id: key }).toArray()).length, 1);
  const refused = tries.find(({ kind }) => kind === 'refused');
  t.match(refused, { retryAfterMs: SECOND }, 'those in flight will soon be judged');
  await Promise.all(Array.from({ length: MAX_VERIFIED }, () => recordFailure(mongo, key)));
  t.match(await rowOf(key), { tries: MAX_VERIFIED, failures: MAX_VERIFIED });
  await age(key, HOUR);
  const spent = await reserve(key);
  t.equal(spent.kind, 'refused', 'the hundred are spent, whatever the wait');
  t.ok(
    spent.kind === 'refused' &&
      spent.retryAfterMs > QUIET_MS - 2 * HOUR &&
      spent.retryAfterMs <= QUIET_MS - HOUR + MINUTE,
  );
  await age(key, QUIET_MS - HOUR - MINUTE);
  t.equal(await allow(key), false);
  await age(key, MINUTE);
  t.equal(await allow(key), true, 'and 24 quiet hours later they are forgotten');
  t.match(await rowOf(key), { tries: 1, failures: 0, blockedUntil: null });
});

t.test('waits begin with the fifth failure and double up to 15 minutes', async (t) => {
  const key = freshKey();
  for (let failures = 1; failures <= 20; failures++) {
    await fail(key);
    const row = await rowOf(key);
    const wait = waitAfter(failures);
    t.match(row, { failures, tries: failures });
    t.equal(row?.blockedUntil === null ? 0 : Number(row?.blockedUntil) - Number(row?.lastTryAt), wait, `${failures}`);
    if (wait === 0) continue;
    const before = await rowOf(key);
    const refused = await reserve(key);
    t.equal(refused.kind, 'refused', 'the wait lasts, for the right password too');
    t.ok(
      refused.kind === 'refused' &&
        refused.retryAfterMs >= SECOND &&
        refused.retryAfterMs <= Math.max(SECOND, wait + MINUTE),
    );
    t.strictSame(await rowOf(key), before, 'and a refused try changes nothing');
    await age(key, wait);
  }
  t.equal(waitAfter(FREE_FAILURES), SECOND);
  t.equal(waitAfter(20), 15 * MINUTE);
});

t.test('a right password clears failures and wait, also when many arrive at once', async (t) => {
  const key = freshKey();
  for (let failures = 0; failures < FREE_FAILURES; failures++) await fail(key);
  t.equal(await allow(key), false);
  await recordSuccess(mongo, key);
  t.match(await rowOf(key), { tries: 0, failures: 0, blockedUntil: null });
  const right = await Promise.all(
    Array.from({ length: 90 }, async () => {
      const isGranted = await allow(key);
      await recordSuccess(mongo, key);
      return isGranted;
    }),
  );
  t.ok(
    right.every((isGranted) => isGranted),
    'right passwords do not throttle each other',
  );
  t.equal(await allow(key), true);
});

t.test('a success keeps login attempts in flight counted, so that a hundred stay the limit', async (t) => {
  const key = freshKey();
  const grantedOf = async (count: number) => {
    const tries = await Promise.all(Array.from({ length: count }, () => allow(key)));
    return tries.filter(Boolean).length;
  };
  t.equal(await grantedOf(MAX_VERIFIED), MAX_VERIFIED);
  await recordSuccess(mongo, key);
  t.equal(await grantedOf(50), 1, 'in the place of the one that was right');
  for (let failures = 0; failures < MAX_VERIFIED; failures++) await recordFailure(mongo, key);
  t.match(await rowOf(key), { tries: MAX_VERIFIED, failures: MAX_VERIFIED });
});

t.test('the count restarts after 24 quiet hours, not a minute earlier', async (t) => {
  const key = freshKey();
  for (let failures = 0; failures < FREE_FAILURES - 1; failures++) await fail(key);
  await age(key, QUIET_MS - MINUTE);
  t.equal(await allow(key), true);
  t.match(await rowOf(key), { tries: FREE_FAILURES, failures: FREE_FAILURES - 1 });
  await age(key, QUIET_MS);
  await fail(key);
  t.match(await rowOf(key), { tries: 1, failures: 1, blockedUntil: null });
});

t.test('concurrent failures are all counted, and so is one that is verified after a success', async (t) => {
  const key = freshKey();
  await Promise.all(Array.from({ length: 50 }, () => recordFailure(mongo, key)));
  t.match(await rowOf(key), { failures: 50, tries: 50 });
  t.equal(await allow(key), false);
  await recordSuccess(mongo, key);
  await recordFailure(mongo, key);
  t.match(await rowOf(key), { failures: 1, tries: 1, blockedUntil: null });
});

t.test('an unverified login attempt is refunded only in the round that counted it', async (t) => {
  const key = freshKey();
  const counted = async () => {
    const reserved = await reserve(key);
    if (reserved.kind === 'refused') throw new Error('a free try was refused');
    return reserved.round;
  };
  const round = await counted();
  t.equal(await counted(), round);
  await refundLoginAttempt(mongo, key, round);
  t.match(await rowOf(key), { tries: 1, failures: 0 });
  await recordFailure(mongo, key);
  await refundLoginAttempt(mongo, key, round);
  t.match(await rowOf(key), { tries: 1, failures: 1 }, 'a judged one stays');
  await recordSuccess(mongo, key);
  await refundLoginAttempt(mongo, key, round);
  t.equal(await rowOf(key), null);
  t.not(await counted(), round);
  await refundLoginAttempt(mongo, key, round);
  t.match(await rowOf(key), { tries: 1 }, 'nor is one of a later round given back for it');
});

t.test('the id of a row hides the address, and one address has one row', async (t) => {
  t.match(throttleKey('an@school.vn'), /^[\w-]{43}$/);
  t.equal(throttleKey('an@school.vn'), throttleKey('an@school.vn'));
  t.not(throttleKey('an@school.vn'), throttleKey('binh@school.vn'));
});

const reservePair = (pair: Pair) => reservePairAttempt(pairsMongo, pair, Date.now());
const pairRowOf = (pair: Pair) => knownPairs(pairsMongo).findOne({ _id: pair.key });

async function knownPair(): Promise<Pair> {
  const pair = pairOf(`an-${emails++}@school.vn`, '203.0.113.7');
  await learnPair(pairsMongo, pair, Date.now());
  return pair;
}

/** Moves the sign-in of the pair back by `ms`. */
async function agePair({ key }: Pair, ms: number): Promise<void> {
  await knownPairs(pairsMongo).updateOne({ _id: key }, { $set: { signedInAt: new Date(Date.now() - ms) } });
}

t.test('a pair is known for 30 days after its last sign-in', async (t) => {
  const pair = pairOf('unknown@school.vn', '203.0.113.7');
  t.strictSame(await reservePair(pair), { kind: 'stranger' });
  t.equal(await pairRowOf(pair), null, 'and a stranger leaves no row');
  await Promise.all(Array.from({ length: 10 }, () => learnPair(pairsMongo, pair, Date.now())));
  t.equal((await reservePair(pair)).kind, 'granted');
  await agePair(pair, KNOWN_FOR_MS - MINUTE);
  t.equal((await reservePair(pair)).kind, 'granted');
  await agePair(pair, KNOWN_FOR_MS + MINUTE);
  t.strictSame(await reservePair(pair), { kind: 'stranger' });
  t.match(await pairRowOf(pair), { tries: 2 }, 'whose login attempt is not counted here');
  await learnPair(pairsMongo, pair, Date.now());
  t.equal((await reservePair(pair)).kind, 'granted', 'a sign-in makes it known again');
  await agePair(pair, KNOWN_FOR_MS - MINUTE);
  await recordPairSuccess(pairsMongo, pair);
  t.ok(Number((await pairRowOf(pair))?.signedInAt) > Date.now() - MINUTE, 'and so does a success');
});

t.test('a known pair waits after its own fifth failure, and a success clears it', async (t) => {
  const pair = await knownPair();
  for (let failures = 0; failures < FREE_FAILURES; failures++) {
    t.equal((await reservePair(pair)).kind, 'granted');
    await recordPairFailure(pairsMongo, pair);
  }
  t.match(await reservePair(pair), { kind: 'refused', retryAfterMs: SECOND });
  await recordPairSuccess(pairsMongo, pair);
  t.match(await pairRowOf(pair), { tries: 0, failures: 0, blockedUntil: null });
  t.equal((await reservePair(pair)).kind, 'granted');
  const other = pairOf(`an-${emails - 1}@school.vn`, '198.51.100.1');
  t.strictSame(await reservePair(other), { kind: 'stranger' }, 'from another address the account is a stranger');
});

t.test('of 150 concurrent login attempts of a known pair a hundred are verified', async (t) => {
  const pair = await knownPair();
  const tries = await Promise.all(Array.from({ length: 150 }, () => reservePair(pair)));
  t.equal(tries.filter(({ kind }) => kind === 'granted').length, MAX_VERIFIED);
});

t.test('an unverified login attempt of a known pair is refunded only in the round that counted it', async (t) => {
  const pair = await knownPair();
  const reserved = await reservePair(pair);
  if (reserved.kind !== 'granted') throw new Error('a free try was refused');
  await refundPairAttempt(pairsMongo, pair, 'another round');
  t.match(await pairRowOf(pair), { tries: 1 });
  await refundPairAttempt(pairsMongo, pair, reserved.round);
  t.match(await pairRowOf(pair), { tries: 0 });
});

t.test('an operator clears the counts of every pair of the account, and the pairs stay known', async (t) => {
  const email = `an-${emails++}@school.vn`;
  const pairs = ['203.0.113.7', '203.0.113.8', '203.0.113.9'].map((address) => pairOf(email, address));
  for (const pair of pairs) await learnPair(pairsMongo, pair, Date.now());
  for (const pair of pairs.slice(1)) {
    await reservePair(pair);
    await recordPairFailure(pairsMongo, pair);
  }
  const cleared = await inTransaction(pairsMongo, 10_000, (session) =>
    clearPairs(pairsMongo, throttleKey(email), session),
  );
  t.equal(cleared, 2);
  for (const pair of pairs) t.match(await pairRowOf(pair), { tries: 0, failures: 0 });
  t.equal((await reservePair(pairs[1] as Pair)).kind, 'granted');
});

t.test('the rows hold digests, and every pair has its own', async (t) => {
  const pair = await knownPair();
  t.match(await pairRowOf(pair), { _id: /^[\w-]{43}$/, account: /^[\w-]{43}$/ });
  t.not(pairOf('a@school.vn', '203.0.113.7').key, pairOf('a@school.vn', '203.0.113.8').key);
  t.not(pairOf('a@school.vn', '203.0.113.7').key, pairOf('b@school.vn', '203.0.113.7').key);
  t.equal(await throttles(pairsMongo).countDocuments(), 0, 'known pairs do not touch the counts of strangers');
});

const ADDRESS = '203.0.113.7';
const pupil = (n: number) => pairOf(`pupil ${n}`, ADDRESS);

/** Opens a look-up, and counts the keys of each read that it sends. */
function openCounted() {
  const reads: number[] = [];
  const db = tappedDb(pairsMongo, (method, name) => {
    if (name !== 'find') return undefined;
    return (filter, ...rest) => {
      reads.push((filter as { _id: { $in: unknown[] } })._id.$in.length);
      return method(filter, ...rest);
    };
  });
  return { isKnown: openPairLookup({ ...pairsMongo, db }, Date.now), reads };
}

t.test('look-ups during a read share the next read', async (t) => {
  await learnPair(pairsMongo, pupil(3), Date.now());
  await learnPair(pairsMongo, pupil(8), Date.now());
  const { isKnown, reads } = openCounted();
  const first = isKnown(pupil(0));
  await new Promise(setImmediate);
  const others = Array.from({ length: 9 }, (_, n) => isKnown(pupil(n + 1)));
  t.equal(await first, false);
  t.same(await Promise.all(others), [false, false, true, false, false, false, false, true, false]);
  t.same(reads, [1, 9]);
  t.equal(await isKnown(pupil(3)), true, 'a look-up later reads again');
  await learnPair(pairsMongo, pupil(0), Date.now());
  t.equal(await isKnown(pupil(0)), true, 'nothing is remembered');
});

t.test('a pair of 30 days ago and the same account elsewhere are strangers', async (t) => {
  const signedInAt = Date.now();
  await learnPair(pairsMongo, pupil(20), signedInAt);
  t.equal(await openPairLookup(pairsMongo, () => signedInAt + KNOWN_FOR_MS - 60_000)(pupil(20)), true);
  t.equal(await openPairLookup(pairsMongo, () => signedInAt + KNOWN_FOR_MS + 60_000)(pupil(20)), false);
  t.equal(await openPairLookup(pairsMongo, Date.now)(pairOf('pupil 20', '198.51.100.1')), false);
});

t.test('a read that fails refuses only those who share it', async (t) => {
  let isDown = true;
  const now = () => {
    if (!isDown) return Date.now();
    isDown = false;
    throw new Error('no clock');
  };
  const isKnown = openPairLookup(pairsMongo, now);
  await learnPair(pairsMongo, pupil(30), Date.now());
  const both = [isKnown(pupil(30)), isKnown(pupil(31))];
  await Promise.all(both.map((one) => t.rejects(one, /no clock/)));
  t.equal(await isKnown(pupil(30)), true);
});
