import t from 'tap';
import { knownPairs } from '#infra/mongo/auth/collections.ts';
import { pairOf } from '#infra/mongo/auth/known-pairs.ts';
import { openAddressTurns } from '#infra/redis/address-turns.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { captureLog } from '#testing/captured-log.ts';
import { authCall, authDeps, quickHasher } from '#testing/doors/auth-door.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { changePassword, register } from './account.ts';
import { login } from './login.ts';

const mongo = await openTestMongo(t);
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
