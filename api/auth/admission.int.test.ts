import t from 'tap';
import { knownPairs, throttles } from '#infra/mongo/auth/collections.ts';
import { openPairLookup, pairOf } from '#infra/mongo/auth/known-pairs.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import { openKeyedHash } from '#infra/net/keyed-hash.ts';
import { HasherBusy } from '#infra/passwords/fair-queue.ts';
import { openAddressTurns } from '#infra/redis/address-turns.ts';
import { MAX_VERIFIED } from '#shared/auth/throttle.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { captureLog } from '#testing/captured-log.ts';
import { authCall, authDeps, quickHasher } from '#testing/doors/auth-door.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { changePassword, register } from './account.ts';
import { type Admitted, admit } from './admission.ts';
import { checkPassword } from './check-password.ts';
import { login } from './login.ts';
import { openLoginEvidence } from './login-evidence.ts';

const mongo = await openTestMongo(t);
const HASH = openKeyedHash('x');
const [SCHOOL, HOME] = ['203.0.113.7', '198.51.100.1'];

/** A front door whose address limits have a clock of their own. Without Redis its book decides at once. */
function door() {
  const clock = { now: Date.now() };
  const { strangers: strangerTurns, close } = openAddressTurns({
    redisUrl: 'redis://127.0.0.1:1',
    log: captureLog(),
    now: () => clock.now,
  });
  t.teardown(close);
  const evidence = openLoginEvidence({ mongo, now: () => clock.now, hash: HASH });
  const queue = { hasRoom: true };
  const isKnownPair = openPairLookup(mongo, Date.now);
  const deps = { mongo, now: Date.now, isKnownPair, strangerTurns, evidence, hasher: { hasRoom: () => queue.hasRoom } };
  const enter = (email: string, address: string) =>
    admit(deps, { email, address }, { turn: strangerTurns.look(address), device: null });
  async function admitted(email: string, address: string): Promise<Admitted> {
    const admission = await enter(email, address);
    if (admission.kind === 'refused') throw new Error(`${email} was refused for ${admission.retryAfterMs} ms`);
    return admission;
  }
  return {
    queue,
    enter,
    admitted,
    fail: async (email: string, address: string) => (await admitted(email, address)).failed(null),
    async signIn(email: string, address: string) {
      const admission = await admitted(email, address);
      await admission.succeeded();
      await admission.signedIn();
    },
    pass(ms: number) {
      clock.now += ms;
    },
  };
}

/** Fails with `count` invented e-mails from one address. */
async function spray({ fail }: ReturnType<typeof door>, address: string, count: number): Promise<void> {
  for (let n = 0; n < count; n++) await fail(`${t.name}-${address}-${n}@invented.example`, address);
}

t.beforeEach(() => throttles(mongo).deleteMany({}));

t.test('a planted failure holds up no account, neither a known one nor a stranger elsewhere', async (t) => {
  const front = door();
  await front.signIn('an@school.vn', SCHOOL);
  await spray(front, SCHOOL, 51);
  t.match(
    await front.enter('planter@school.vn', SCHOOL),
    { kind: 'admitted' },
    'the turn of the first stranger beyond',
  );
  t.match(await front.enter('an@school.vn', SCHOOL), { kind: 'admitted', isKnown: true });
  await front.fail('an@school.vn', HOME);
  t.match(await front.enter('an@school.vn', SCHOOL), { kind: 'admitted', isKnown: true });
  await front.fail('binh@school.vn', SCHOOL).catch(() => undefined);
  t.match(await front.enter('binh@school.vn', HOME), { kind: 'admitted', isKnown: false });
});

t.test('strangers who spend all guesses of an account do not hold up its known pair', async (t) => {
  const front = door();
  await front.signIn('chi@school.vn', SCHOOL);
  await front.fail('chi@school.vn', HOME);
  await throttles(mongo).updateOne(
    { _id: throttleKey('chi@school.vn') },
    { $set: { tries: MAX_VERIFIED, failures: MAX_VERIFIED } },
  );
  t.match(await front.enter('chi@school.vn', HOME), { kind: 'refused', by: 'account' });
  t.match(await front.enter('chi@school.vn', '192.0.2.1'), { kind: 'refused' });
  const known = await front.admitted('chi@school.vn', SCHOOL);
  t.equal(known.isKnown, true);
  await known.succeeded();
  t.match(await front.enter('chi@school.vn', HOME), { kind: 'admitted' }, 'a success clears the account');
});

t.test('beyond the allowance one stranger a second is admitted, and a refused one is not counted', async (t) => {
  const front = door();
  await spray(front, SCHOOL, 51);
  await front.fail('dung@school.vn', SCHOOL);
  const refused = await front.enter('em@school.vn', SCHOOL);
  t.match(refused, { kind: 'refused', by: 'address', retryAfterMs: SECOND });
  t.equal(await throttles(mongo).findOne({ _id: throttleKey('em@school.vn') }), null);
  t.match(await front.enter('em@school.vn', HOME), { kind: 'admitted' }, 'another address has its own turns');
  front.pass(SECOND);
  const rush = await Promise.all(['g', 'h', 'i', 'k'].map((name) => front.enter(`${name}@school.vn`, SCHOOL)));
  t.equal(rush.filter(({ kind }) => kind === 'admitted').length, 1, 'of several at once one takes the turn');
  t.strictSame(
    (
      await throttles(mongo)
        .find({
          tries: { $gt: 0 },
          failures: 0,
          _id: { $in: ['g', 'h', 'i', 'k'].map((name) => throttleKey(`${name}@school.vn`)) },
        })
        .toArray()
    ).length,
    1,
    'the others are refunded',
  );
});

t.test('a full line of strangers refuses a stranger before the account is counted, and no known pair', async (t) => {
  const front = door();
  await front.signIn('phuc@school.vn', SCHOOL);
  front.queue.hasRoom = false;
  await t.rejects(front.enter('quynh@school.vn', SCHOOL), HasherBusy);
  t.equal(await throttles(mongo).findOne({ _id: throttleKey('quynh@school.vn') }), null);
  t.match(await front.enter('phuc@school.vn', SCHOOL), { kind: 'admitted', isKnown: true });
});

t.test(
  'a flood whose line is full costs Redis nothing, and is refused though a place becomes free meanwhile',
  async (t) => {
    for (const isFull of [true, false]) {
      let looks = 0;
      let asked = 0;
      // Room is refused at the first question only.
      const base = authDeps(mongo, { hasRoom: () => !isFull || asked++ > 0 });
      const look = async () => {
        looks += 1;
        return { spacingMs: 0, waitMs: 0 };
      };
      const deps = { ...base, strangerTurns: { ...base.strangerTurns, look } };
      const email = `flood-${isFull}@invented.example`;
      const attempt = { email, password: 'wrong', find: async () => null, isAnonymous: true };
      const checked = checkPassword(deps, authCall({}), attempt);
      if (isFull) await t.rejects(checked, HasherBusy);
      else t.match(await checked, { rejected: 'AUTH_INVALID_CREDENTIALS' });
      t.equal(looks, isFull ? 0 : 1);
      const row = await throttles(mongo).findOne({ _id: throttleKey(email) });
      t.equal(row === null, isFull, 'a refused attempt is not counted');
    }
  },
);

t.test('each success behind an address lets one more stranger in at once', async (t) => {
  const front = door();
  await spray(front, SCHOOL, 51);
  t.match(await front.enter('lan@school.vn', SCHOOL), { kind: 'admitted' });
  t.match(await front.enter('minh@school.vn', SCHOOL), { kind: 'refused' });
  front.pass(SECOND);
  await front.signIn('lan@school.vn', SCHOOL);
  t.match(await front.enter('minh@school.vn', SCHOOL), { kind: 'admitted' });
  t.match(await front.enter('nga@school.vn', SCHOOL), { kind: 'admitted' });
});

const PASSWORD = 'sông hương núi ngự';
const newEmail = () => `${newId(Date.now())}@truong.example`;

/** A front door behind which strangers of the one address of its callers are slowed. Its turns have a clock that a test moves. */
async function slowedDoor() {
  const clock = { now: Date.now() };
  const { strangers: strangerTurns, close } = openAddressTurns({
    redisUrl: 'redis://127.0.0.1:1',
    log: captureLog(),
    now: () => clock.now,
  });
  t.teardown(close);
  const pauses: number[] = [];
  const pause = async (ms: number) => void pauses.push(ms);
  const deps = { ...authDeps(mongo, { lastCheckMs: () => 250 }), strangerTurns, pause };
  const { peer } = authCall({});
  for (let n = 0; n <= 50; n++) await strangerTurns.failed(peer, `invented ${n}`);

  async function pupil() {
    const email = newEmail();
    const reply = await register(deps, authCall({ email, password: PASSWORD, fullName: 'Nguyễn Văn An' }));
    if (isRejection(reply)) throw new Error(reply.rejected);
    return { email, user: (reply.data as { user: { id: string } }).user, device: reply.headers?.['x-device-token'] };
  }
  /** Returns what a caller sees of a login: its status by code, and `Retry-After`. */
  async function attempt(email: string, password = 'wrong', device?: string) {
    const reply = await login(deps, { ...authCall({ email, password }), headers: { 'x-device-token': device } });
    return isRejection(reply) ? `${reply.rejected} ${Math.ceil(reply.retryAfter ?? 0)}` : `${reply.status}`;
  }
  const failures = async (email: string) => {
    return (await knownPairs(mongo).findOne({ _id: pairOf(email, peer).key }))?.failures;
  };
  return { clock, deps, pauses, pupil, attempt, failures };
}

/** Pauses before each of some login attempts, in seconds. */
const PACES = [0, 0, 1, 0, 0.5, 0.5, 0] as const;

// Before: four wrong passwords got 401 401 401 401 where the account had signed in, and 429 429 429 429 for an invented e-mail.
t.test('behind a slowed address, replies to wrong passwords do not show which accounts are known there', async (t) => {
  const seen: string[][] = [];
  for (const kind of ['known', 'device', 'invented'] as const) {
    const door = await slowedDoor();
    const { email, device } = kind === 'invented' ? { email: newEmail() } : await door.pupil();
    const replies: string[] = [];
    for (const seconds of PACES.slice(0, 5)) {
      door.clock.now += seconds * SECOND;
      replies.push(await door.attempt(email, 'wrong', kind === 'device' ? device : undefined));
    }
    seen.push(replies);
  }
  const [known, device, invented] = seen;
  t.strictSame(known, invented);
  t.strictSame(device, invented);
  t.strictSame(invented, [
    'AUTH_INVALID_CREDENTIALS 0',
    'AUTH_THROTTLED 1',
    'AUTH_INVALID_CREDENTIALS 0',
    'AUTH_THROTTLED 1',
    'AUTH_THROTTLED 1',
  ]);
});

t.test('known pairs and invented e-mails have one line of turns for their wrong passwords', async (t) => {
  const door = await slowedDoor();
  const [an, binh] = [await door.pupil(), await door.pupil()];
  const replies: string[] = [];
  for (const [n, seconds] of PACES.entries()) {
    door.clock.now += seconds * SECOND;
    replies.push(await door.attempt([an.email, newEmail(), binh.email][n % 3] ?? ''));
  }
  const [verified, refused] = ['AUTH_INVALID_CREDENTIALS 0', 'AUTH_THROTTLED 1'];
  t.strictSame(replies, [verified, refused, verified, refused, refused, verified, refused]);
});

t.test('a hidden failure counts, and the right password is accepted at once', async (t) => {
  const door = await slowedDoor();
  const { email } = await door.pupil();
  for (let n = 0; n < 3; n++) await door.attempt(email);
  t.equal(await door.failures(email), 3);
  t.equal(await door.attempt(email, PASSWORD), '200');
  t.equal(await door.failures(email), 0);
  for (let n = 0; n < 5; n++) await door.attempt(email);
  t.equal(await door.attempt(email, PASSWORD), 'AUTH_THROTTLED 1', 'its own wait has the reply of a stranger too');
});

t.test('a stranger is refused as late as a wrong password is', async (t) => {
  const door = await slowedDoor();
  const { email } = await door.pupil();
  await door.attempt(newEmail());
  t.strictSame(door.pauses, [], 'its password was verified');
  await door.attempt(newEmail());
  t.strictSame(door.pauses, [250]);
  await door.attempt(email);
  t.strictSame(door.pauses, [250], 'that of a known pair was verified');
});

t.test('a wrong password is 401 in a session, and for every caller within the allowance', async (t) => {
  const door = await slowedDoor();
  const { email, user, device } = await door.pupil();
  await door.attempt(newEmail());
  const identity = {
    session: { accountId: user.id, sessionId: door.deps.signer.readDevice(device ?? '')?.sid ?? '' },
  };
  const body = { currentPassword: 'wrong', newPassword: 'một mật khẩu khác hẳn' };
  t.match(await changePassword(door.deps, authCall(body, identity)), { rejected: 'AUTH_INVALID_CREDENTIALS' });
  door.clock.now += 24 * 3_600 * SECOND;
  for (let n = 0; n < 2; n++) t.equal(await door.attempt(email), 'AUTH_INVALID_CREDENTIALS 0');
  t.equal(await door.attempt(newEmail()), 'AUTH_INVALID_CREDENTIALS 0');
});

t.test('a hasher reports how long its last comparison took', async (t) => {
  const from = performance.now();
  await quickHasher.verifyPassword('wrong', null);
  const ms = quickHasher.lastCheckMs();
  t.ok(ms > 0 && ms <= performance.now() - from, `${ms} ms`);
});
