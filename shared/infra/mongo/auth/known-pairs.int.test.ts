import t from 'tap';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { KNOWN_FOR_MS } from '#shared/auth/address-rule.ts';
import { FREE_FAILURES, MAX_VERIFIED } from '#shared/auth/throttle.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { knownPairs, throttles } from './collections.ts';
import {
  clearPairs,
  learnPair,
  type Pair,
  pairOf,
  recordPairFailure,
  recordPairSuccess,
  refundPairAttempt,
  reservePairAttempt,
} from './known-pairs.ts';
import { throttleKey } from './throttle.ts';

const mongo = await openTestMongo(t);
let emails = 0;

const reserve = (pair: Pair) => reservePairAttempt(mongo, pair, Date.now());
const rowOf = (pair: Pair) => knownPairs(mongo).findOne({ _id: pair.key });

async function known(): Promise<Pair> {
  const pair = pairOf(`an-${emails++}@school.vn`, '203.0.113.7');
  await learnPair(mongo, pair, Date.now());
  return pair;
}

/** Moves the sign-in of the pair back by `ms`. */
async function age({ key }: Pair, ms: number): Promise<void> {
  await knownPairs(mongo).updateOne({ _id: key }, { $set: { signedInAt: new Date(Date.now() - ms) } });
}

t.test('a pair is known for 30 days after its last sign-in', async (t) => {
  const pair = pairOf('unknown@school.vn', '203.0.113.7');
  t.strictSame(await reserve(pair), { kind: 'stranger' });
  t.equal(await rowOf(pair), null, 'and a stranger leaves no row');
  await Promise.all(Array.from({ length: 10 }, () => learnPair(mongo, pair, Date.now())));
  t.equal((await reserve(pair)).kind, 'granted');
  await age(pair, KNOWN_FOR_MS - MINUTE);
  t.equal((await reserve(pair)).kind, 'granted');
  await age(pair, KNOWN_FOR_MS + MINUTE);
  t.strictSame(await reserve(pair), { kind: 'stranger' });
  t.match(await rowOf(pair), { tries: 2 }, 'whose login attempt is not counted here');
  await learnPair(mongo, pair, Date.now());
  t.equal((await reserve(pair)).kind, 'granted', 'a sign-in makes it known again');
  await age(pair, KNOWN_FOR_MS - MINUTE);
  await recordPairSuccess(mongo, pair);
  t.ok(Number((await rowOf(pair))?.signedInAt) > Date.now() - MINUTE, 'and so does a success');
});

t.test('a known pair waits after its own fifth failure, and a success clears it', async (t) => {
  const pair = await known();
  for (let failures = 0; failures < FREE_FAILURES; failures++) {
    t.equal((await reserve(pair)).kind, 'granted');
    await recordPairFailure(mongo, pair);
  }
  t.match(await reserve(pair), { kind: 'refused', retryAfterMs: SECOND });
  await recordPairSuccess(mongo, pair);
  t.match(await rowOf(pair), { tries: 0, failures: 0, blockedUntil: null });
  t.equal((await reserve(pair)).kind, 'granted');
  const other = pairOf(`an-${emails - 1}@school.vn`, '198.51.100.1');
  t.strictSame(await reserve(other), { kind: 'stranger' }, 'from another address the account is a stranger');
});

t.test('of 150 concurrent login attempts of a known pair a hundred are verified', async (t) => {
  const pair = await known();
  const tries = await Promise.all(Array.from({ length: 150 }, () => reserve(pair)));
  t.equal(tries.filter(({ kind }) => kind === 'granted').length, MAX_VERIFIED);
});

t.test('an unverified login attempt of a known pair is refunded only in the round that counted it', async (t) => {
  const pair = await known();
  const reserved = await reserve(pair);
  if (reserved.kind !== 'granted') throw new Error('a free try was refused');
  await refundPairAttempt(mongo, pair, 'another round');
  t.match(await rowOf(pair), { tries: 1 });
  await refundPairAttempt(mongo, pair, reserved.round);
  t.match(await rowOf(pair), { tries: 0 });
});

t.test('an operator clears the counts of every pair of the account, and the pairs stay known', async (t) => {
  const email = `an-${emails++}@school.vn`;
  const pairs = ['203.0.113.7', '203.0.113.8', '203.0.113.9'].map((address) => pairOf(email, address));
  for (const pair of pairs) await learnPair(mongo, pair, Date.now());
  for (const pair of pairs.slice(1)) {
    await reserve(pair);
    await recordPairFailure(mongo, pair);
  }
  const cleared = await inTransaction(mongo, 10_000, (session) => clearPairs(mongo, throttleKey(email), session));
  t.equal(cleared, 2);
  for (const pair of pairs) t.match(await rowOf(pair), { tries: 0, failures: 0 });
  t.equal((await reserve(pairs[1] as Pair)).kind, 'granted');
});

t.test('the rows hold digests, and every pair has its own', async (t) => {
  const pair = await known();
  t.match(await rowOf(pair), { _id: /^[\w-]{43}$/, account: /^[\w-]{43}$/ });
  t.not(pairOf('a@school.vn', '203.0.113.7').key, pairOf('a@school.vn', '203.0.113.8').key);
  t.not(pairOf('a@school.vn', '203.0.113.7').key, pairOf('b@school.vn', '203.0.113.7').key);
  t.equal(await throttles(mongo).countDocuments(), 0, 'known pairs do not touch the counts of strangers');
});
