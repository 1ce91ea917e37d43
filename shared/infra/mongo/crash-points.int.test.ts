import t, { type Test } from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { OPERATOR_AUDIT } from '#infra/mongo/operator-audit.ts';
import { roundOrder } from '#shared/classifier/commands.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import {
  freshAccount,
  freshSession,
  freshToken,
  storeSession,
  storeSignedIn,
} from '#testing/stored/stored-accounts.ts';
import { postJob, unlimitedSlots } from '#testing/stored/stored-model-work.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { insertAccount } from './auth/accounts.ts';
import { accounts, securityEvents, sessions, tokens } from './auth/collections.ts';
import { setPassword, setStatus } from './auth/operator.ts';
import { changePassword } from './auth/passwords.ts';
import { openSession, reportReuse, rotateToken } from './auth/sessions.ts';
import { aiJobBatches, aiJobSelections, aiJobs } from './classifier/collections.ts';
import { cancelJob, retryJob } from './classifier/jobs.ts';

const mongo = await openTestMongo(t);
const BUDGET_MS = 5_000;
const NEW = { scheme: 'bcrypt-sha256', hash: 'new' } as const;

/** A change of several documents. `parts` returns for each part whether it is stored. */
interface Change {
  /** Number of its writes, including the commit. */
  writes: number;
  make(mongo: Mongo): Promise<unknown>;
  parts(): Promise<boolean[]>;
}

const isThere = async (row: Promise<unknown>) => (await row) !== null;
const rowsOfEvents = (accountId: string) => securityEvents(mongo).findOne({ accountId });
const noticeTo = (subject: string) => mailboxOf(mongo, 'accountnotices').findOne({ queue: 'accountnotices', subject });
const audited = (subject: string) => mongo.db.collection(OPERATOR_AUDIT).findOne({ subject });
const act = () => ({ operator: 'op', reason: 'a test', now: Date.now() });

const CHANGES: Record<string, () => Promise<Change>> = {
  async insertAccount() {
    const account = freshAccount();
    const { session, token } = freshSession(account);
    return {
      writes: 4,
      make: (broken) => insertAccount(broken, { account, session, token }, BUDGET_MS),
      parts: () =>
        Promise.all([
          isThere(accounts(mongo).findOne({ _id: account._id })),
          isThere(sessions(mongo).findOne({ _id: session._id })),
          isThere(tokens(mongo).findOne({ _id: token._id })),
        ]),
    };
  },
  async openSession() {
    const { account } = await storeSignedIn(mongo);
    const { session, token } = freshSession(account);
    return {
      writes: 4,
      make: (broken) => openSession(broken, { session, token, passwordHash: account.password.hash }, BUDGET_MS),
      parts: () =>
        Promise.all([
          isThere(sessions(mongo).findOne({ _id: session._id })),
          isThere(tokens(mongo).findOne({ _id: token._id })),
        ]),
    };
  },
  async openSessionFromNewAddress() {
    const { account } = await storeSignedIn(mongo);
    const opened = { ...freshSession(account), passwordHash: account.password.hash, strangerFrom: 'hash' };
    return {
      writes: 5,
      make: (broken) => openSession(broken, opened, BUDGET_MS),
      parts: () =>
        Promise.all([
          isThere(sessions(mongo).findOne({ _id: opened.session._id })),
          isThere(securityEvents(mongo).findOne({ sessionId: opened.session._id, type: 'NEW_ADDRESS' })),
        ]),
    };
  },
  async rotateToken() {
    const { session, token } = await storeSignedIn(mongo);
    const successor = freshToken(session, { expiresAt: new Date(session.expiresAt.getTime() + 1_000) });
    const { expiresAt } = successor;
    return {
      writes: 4,
      make: (broken) => rotateToken(broken, { presented: token._id, sessionId: session._id, successor }, BUDGET_MS),
      parts: () =>
        Promise.all([
          isThere(tokens(mongo).findOne({ _id: token._id, consumedAt: { $ne: null } })),
          isThere(tokens(mongo).findOne({ _id: successor._id })),
          isThere(sessions(mongo).findOne({ _id: session._id, expiresAt })),
        ]),
    };
  },
  async reportReuse() {
    const { account, session, token } = await storeSignedIn(mongo);
    return {
      writes: 4,
      make: (broken) => reportReuse(broken, token, Date.now(), BUDGET_MS),
      parts: () =>
        Promise.all([
          isThere(sessions(mongo).findOne({ _id: session._id, endReason: 'REUSE' })),
          isThere(rowsOfEvents(account._id)),
          isThere(noticeTo(account._id)),
        ]),
    };
  },
  async changePassword() {
    const { account, session: own } = await storeSignedIn(mongo);
    const { session: other } = await storeSession(mongo, account);
    const change = { accountId: account._id, from: account.password.hash, to: NEW, keep: own._id, now: Date.now() };
    return {
      writes: 5,
      make: (broken) => changePassword(broken, change, BUDGET_MS),
      parts: () =>
        Promise.all([
          isThere(accounts(mongo).findOne({ _id: account._id, 'password.hash': NEW.hash })),
          isThere(sessions(mongo).findOne({ _id: other._id, endReason: 'PASSWORD' })),
          isThere(rowsOfEvents(account._id)),
          isThere(noticeTo(account._id)),
        ]),
    };
  },
  async setStatus() {
    const { account, session } = await storeSignedIn(mongo);
    return {
      writes: 5,
      make: (broken) => setStatus(broken, { accountId: account._id, status: 'DELETED' }, act()),
      parts: () =>
        Promise.all([
          isThere(accounts(mongo).findOne({ _id: account._id, status: 'DELETED' })),
          isThere(sessions(mongo).findOne({ _id: session._id, endReason: 'OPERATOR' })),
          isThere(rowsOfEvents(account._id)),
          isThere(audited(account._id)),
        ]),
    };
  },
  async setPassword() {
    const { account, session } = await storeSignedIn(mongo);
    return {
      writes: 8,
      make: (broken) => setPassword(broken, account, NEW, act()),
      parts: () =>
        Promise.all([
          isThere(accounts(mongo).findOne({ _id: account._id, 'password.hash': NEW.hash })),
          isThere(sessions(mongo).findOne({ _id: session._id, endReason: 'OPERATOR' })),
          isThere(rowsOfEvents(account._id)),
          isThere(noticeTo(account._id)),
          isThere(audited(account._id)),
        ]),
    };
  },
};

for (const [name, prepare] of Object.entries(CHANGES)) {
  t.test(`${name}: a process that dies between any two writes leaves the whole change or nothing`, async (t) => {
    const { writes } = await prepare();
    for (let point = 1; point <= writes; point++) {
      for (const when of ['before', 'after'] as const) {
        const change = await prepare();
        const broken = dyingProcess(mongo, point, when);
        await t.rejects(change.make(broken.mongo), /the process is dead/, `dies ${when} write ${point}`);
        const isCommitted = point === writes && when === 'after';
        t.strictSame(new Set(await change.parts()), new Set([isCommitted]), `${when} write ${point}: nothing half`);
        if (isCommitted) continue;
        await change.make(mongo);
        t.strictSame(new Set(await change.parts()), new Set([true]), 'a repeat completes the change');
      }
    }
    const spare = dyingProcess(mongo, writes + 1, 'before');
    await (await prepare()).make(spare.mongo);
    t.equal(spare.diedAt() !== null, false, `there are no more than ${writes} writes`);
  });
}

const OWNER = { actorId: 'teacher-1', organizationId: 'org-1' };
/** More writes than any of the changes has. */
const MAX_POINTS = 20;

/** Runs `work` in a process that dies at each of its writes in turn, and checks what it has stored with `left`. */
async function dieAtEach(
  t: Test,
  leastPoints: number,
  scene: (mongo: TestMongo) => Promise<{ work: (dying: Mongo) => Promise<unknown>; left: () => Promise<void> }>,
): Promise<void> {
  for (const when of ['before', 'after'] as const) {
    const deaths: string[] = [];
    for (let point = 1; point < MAX_POINTS; point++) {
      const mongo = await openTestMongo(t);
      const { work, left } = await scene(mongo);
      const dying = dyingProcess(mongo, point, when);
      await work(dying.mongo).catch((error: Error) => t.match(error, { message: 'the process is dead' }));
      await left();
      const diedAt = dying.diedAt();
      if (diedAt === null) break;
      deaths.push(diedAt);
    }
    t.ok(deaths.length >= leastPoints, deaths.join(', '));
  }
}

t.test('a job is stored with its questions and its command, or not at all', (t) =>
  dieAtEach(t, 5, async (mongo) => ({
    work: (dying) => postJob(dying),
    async left() {
      const jobs = await aiJobs(mongo).countDocuments({});
      const [selections, batches, commands] = [
        await aiJobSelections(mongo).countDocuments({}),
        await aiJobBatches(mongo).countDocuments({}),
        await mailboxOf(mongo, 'classifier').countDocuments({}),
      ];
      t.strictSame({ selections, batches, commands }, { selections: jobs, batches: 2 * jobs, commands: jobs });
    },
  })),
);

t.test('a job is restarted together with its command, or stays as it is', (t) =>
  dieAtEach(t, 3, async (mongo) => {
    const { subject } = await postJob(mongo);
    await cancelJob(mongo, subject, OWNER);
    const retry = (on: Mongo) =>
      retryJob(on, subject, OWNER, unlimitedSlots(), (at) =>
        newCommand({ ...roundOrder(at, OWNER.organizationId), maxAttempts: 3, now: Date.now() }),
      );
    return {
      work: retry,
      async left() {
        const { status, round } = (await aiJobs(mongo).findOne({ _id: subject })) ?? {};
        const commands = await mailboxOf(mongo, 'classifier').countDocuments({ subject });
        t.strictSame({ status, commands }, { status: round === 1 ? 'CANCELLED' : 'PENDING', commands: round });
        if (round === 1) t.match(await retry(mongo), { job: { status: 'PENDING', round: 2 } });
      },
    };
  }),
);
