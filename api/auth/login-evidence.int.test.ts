import t from 'tap';
import { accounts, type SecurityEventType, securityEvents, throttles } from '#infra/mongo/auth/collections.ts';
import { openPairLookup } from '#infra/mongo/auth/known-pairs.ts';
import { newestSecurityEvents, openSession } from '#infra/mongo/auth/sessions.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import { openKeyedHash } from '#infra/net/keyed-hash.ts';
import { openAddressTurns } from '#infra/redis/address-turns.ts';
import { DAY, HOUR, SECOND } from '#shared/kernel/time.ts';
import { captureLog } from '#testing/captured-log.ts';
import { freshAccount, freshSession, storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { admit } from './admission.ts';
import { openLoginEvidence } from './login-evidence.ts';

const mongo = await openTestMongo(t);
const hash = openKeyedHash('a secret of the test');
const [SCHOOL, HOME] = ['203.0.113.7', '198.51.100.1'];
const BUDGET_MS = 5_000;

/** A front door with a clock of its own, without Redis. Its evidence counts what it sends to MongoDB. */
function door() {
  const clock = { now: Date.now() };
  const now = () => clock.now;
  const { strangers: strangerTurns, close } = openAddressTurns({
    redisUrl: 'redis://127.0.0.1:1',
    log: captureLog(),
    now,
  });
  t.teardown(close);
  const evidence = openLoginEvidence({ mongo, now, hash });
  const isKnownPair = openPairLookup(mongo, Date.now);
  const deps = { mongo, now: Date.now, isKnownPair, strangerTurns, evidence, hasher: { hasRoom: () => true } };
  return {
    clock,
    evidence,
    enter: (email: string, address: string) =>
      admit(deps, { email, address }, { turn: strangerTurns.look(address), device: null }),
    /** Fails a login attempt whose wait, if any, is over. Returns false if the address refused it. */
    async fail(email: string, address: string, accountId: string | null = null): Promise<boolean> {
      await throttles(mongo).updateOne({ _id: throttleKey(email) }, { $set: { blockedUntil: null } });
      const admission = await admit(deps, { email, address }, { turn: strangerTurns.look(address), device: null });
      if (admission.kind === 'admitted') await admission.failed(accountId);
      return admission.kind === 'admitted';
    },
  };
}

const eventsOf = (type: SecurityEventType) => securityEvents(mongo).find({ type }).sort({ at: 1 }).toArray();

t.beforeEach(async () => {
  await securityEvents(mongo).deleteMany({});
  await throttles(mongo).deleteMany({});
});

t.test('the failure that causes a wait of a minute is an event, once a day for each account', async (t) => {
  const { account } = await storeSignedIn(mongo);
  const front = door();
  for (let n = 1; n <= 10; n++) await front.fail(account.email, SCHOOL, account._id);
  t.strictSame(await eventsOf('LOGIN_LOCKED'), [], 'short waits are no event');
  for (let n = 11; n <= 20; n++) await front.fail(account.email, SCHOOL, account._id);
  const metadata = { address: hash('address', SCHOOL), failures: 11, knownPair: 'no' };
  t.match(await newestSecurityEvents(mongo, account._id, 9), [{ type: 'LOGIN_LOCKED', sessionId: null, metadata }]);
  t.equal((await eventsOf('LOGIN_LOCKED')).length, 1);
  front.clock.now += DAY;
  await Promise.all([1, 2, 3].map(() => front.fail(account.email, HOME, account._id)));
  t.equal((await eventsOf('LOGIN_LOCKED')).length, 2, 'concurrent failures of the next day are one event');
  const stored = JSON.stringify(await eventsOf('LOGIN_LOCKED'));
  for (const plain of [SCHOOL, HOME, account.email, throttleKey(account.email)]) t.notMatch(stored, plain);
});

t.test('an unknown e-mail has the same event, without an account', async (t) => {
  const front = door();
  for (let n = 1; n <= 12; n++) await front.fail('nobody@school.vn', SCHOOL);
  t.match(await eventsOf('LOGIN_LOCKED'), [{ accountId: null, metadata: { failures: 11 } }]);
  t.equal((await eventsOf('LOGIN_LOCKED')).length, 1);
});

t.test('an e-mail that gets an account has an event of each, because shards do not share an id', async (t) => {
  const [{ evidence }, { account }] = [door(), await storeSignedIn(mongo)];
  const login = { key: throttleKey(account.email), address: SCHOOL, isKnown: false, failures: 11 };
  for (const accountId of [null, account._id, null, account._id]) await evidence.failed({ ...login, accountId });
  const events = await eventsOf('LOGIN_LOCKED');
  t.strictSame(new Set(events.map(({ accountId }) => accountId)), new Set([null, account._id]));
  t.equal(events.length, 2);
});

t.test('a known pair has an event of its own', async (t) => {
  const { account } = await storeSignedIn(mongo);
  const front = door();
  for (const isKnown of [true, false]) {
    const login = { key: `count ${isKnown}`, accountId: account._id, address: SCHOOL, isKnown, failures: 11 };
    for (let n = 0; n < 3; n++) await front.evidence.failed(login);
  }
  const events = await newestSecurityEvents(mongo, account._id, 9);
  t.strictSame(events.map(({ metadata }) => metadata.knownPair).sort(), ['no', 'yes']);
});

t.test('strangers of an address beyond its allowance are one event an hour, whatever number of requests', async (t) => {
  const [front, other] = [door(), door()];
  for (let n = 0; n <= 50; n++) t.equal(await front.fail(`spray-${n}@invented.example`, SCHOOL), true);
  t.strictSame(await eventsOf('ADDRESS_SLOWED'), []);
  await Promise.all(Array.from({ length: 20 }, (_, n) => front.enter(`flood-${n}@invented.example`, SCHOOL)));
  await other.evidence.slowed(SCHOOL, SECOND);
  const metadata = { address: hash('address', SCHOOL), spacingMs: SECOND };
  t.match(await eventsOf('ADDRESS_SLOWED'), [{ accountId: null, metadata }]);
  t.equal((await eventsOf('ADDRESS_SLOWED')).length, 1);
  t.notMatch(JSON.stringify(await eventsOf('ADDRESS_SLOWED')), SCHOOL);
  front.clock.now += HOUR;
  await front.enter('flood@invented.example', SCHOOL);
  t.equal((await eventsOf('ADDRESS_SLOWED')).length, 2);
});

t.test('a sign-in from a new address is an event of an account that has signed in before', async (t) => {
  const events = async (accountId: string) => newestSecurityEvents(mongo, accountId, 9);
  const open = async (account: ReturnType<typeof freshAccount>, strangerFrom: string | null) => {
    const { session, token } = freshSession(account);
    const opened = { session, token, passwordHash: account.password.hash, strangerFrom };
    t.match(await openSession(mongo, opened, BUDGET_MS), { kind: 'opened' });
    return session._id;
  };
  const imported = freshAccount();
  await accounts(mongo).insertOne({ ...imported, importedAt: new Date() });
  await open(imported, 'hash-1');
  t.strictSame(await events(imported._id), [], 'the first sign-in of an imported account is none');
  await open(imported, null);
  t.strictSame(await events(imported._id), [], 'nor is one of a known pair');
  const sessionId = await open(imported, 'hash-2');
  t.match(await events(imported._id), [{ type: 'NEW_ADDRESS', sessionId, metadata: { address: 'hash-2' } }]);
  const registered = freshAccount();
  await accounts(mongo).insertOne(registered);
  await open(registered, 'hash-1');
  t.match(await events(registered._id), [{ type: 'NEW_ADDRESS' }], 'registration signs in');
});
