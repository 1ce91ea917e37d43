import t from 'tap';
import { FREE_FAILURES, MAX_VERIFIED, QUIET_MS, waitAfter } from '#shared/auth/throttle.ts';
import { HOUR, MINUTE, SECOND } from '#shared/kernel/time.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { throttles } from './collections.ts';
import { recordFailure, recordSuccess, refundLoginAttempt, reserveLoginAttempt, throttleKey } from './throttle.ts';

const mongo = await openTestMongo(t);
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
