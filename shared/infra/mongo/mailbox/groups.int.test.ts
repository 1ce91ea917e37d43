import { type ClientSession, MongoServerError } from 'mongodb';
import t from 'tap';
import { attempts, whereKey } from '#infra/mongo/attempt/collections.ts';
import { openStartStore } from '#infra/mongo/attempt/start-store.ts';
import { openSubmits } from '#infra/mongo/attempt/submit.ts';
import { gatherTransactions } from '#infra/mongo/gathered-transactions.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { inserts } from '#infra/mongo/writes.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Command } from '#shared/kernel/command.ts';
import { HOUR, MINUTE, SECOND } from '#shared/kernel/time.ts';
import { freshAttempt, postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { again, expire, makeSuspect } from '#testing/stored/stored-commands.ts';
import { tappedCommits } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { countCommands } from '#testing/stores/plans.ts';
import { claimCommand, sessionIdOf } from './claim.ts';
import { openClaims } from './claim-many.ts';
import { COMMANDS, type CommandOf, newCommand } from './commands.ts';
import { openCommits } from './commit-many.ts';
import { findLive, mailboxOf } from './mailbox.ts';

const mongo = await openTestMongo(t);
const sent = countCommands(mongo);
await createIndexes(mongo);
const HOLDER = { workerId: 'worker-1', leaseMs: MINUTE };
const DONE = { to: 'DONE', result: { attemptId: 'a' } } as const;

/** Runs `work` with a session for each of the items. */
async function withSessions<Item, Result>(
  items: readonly Item[],
  work: (item: Item, session: ClientSession) => Promise<Result>,
): Promise<PromiseSettledResult<Result>[]> {
  return Promise.allSettled(items.map((item) => mongo.client.withSession((session) => work(item, session))));
}

/** Ways in which a command meets a claim. */
const STATES: Record<string, (command: Command) => Promise<unknown>> = {
  fresh: async () => undefined,
  'due again': async (command) => {
    await claimCommand(mongo, command, HOLDER);
    await mailboxOf(mongo, 'grading').updateOne(
      { _id: command._id },
      { $set: { lockedUntil: null, nextRunAt: new Date(0) } },
    );
  },
  leased: (command) => claimCommand(mongo, command, HOLDER),
  abandoned: async (command) => {
    await claimCommand(mongo, command, HOLDER);
    await expire(mongo, command);
  },
  'a suspect': (command) => makeSuspect(mongo, command),
  'about to be held': async (command) => {
    for (let lapse = 0; lapse < 2; lapse++) {
      await claimCommand(mongo, command, HOLDER);
      await expire(mongo, command);
    }
  },
  'without an attempt left': async (command) => {
    await mailboxOf(mongo, 'grading').updateOne({ _id: command._id }, { $set: { attempts: 10 } });
  },
  settled: (command) => mailboxOf(mongo, 'grading').updateOne({ _id: command._id }, { $set: { status: 'DONE' } }),
  unknown: (command) => mailboxOf(mongo, 'grading').deleteOne({ _id: command._id }),
};

t.test('commands that are claimed together are claimed as each would be alone', async (t) => {
  const post = async (state: string) => {
    const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 10 });
    await STATES[state]?.(command);
    return { state, command };
  };
  const [together, alone] = [[], []] as { state: string; command: Command }[][];
  for (const state of Object.keys(STATES)) {
    together?.push(await post(state));
    alone?.push(await post(state));
  }
  const claim = openClaims(mongo);
  const found = await withSessions(together ?? [], async ({ command }, session) => ({
    claimed: await claim(command, { ...HOLDER, session }),
    session: sessionIdOf(session),
  }));

  for (const [index, outcome] of found.entries()) {
    const { state, command } = alone?.[index] ?? { state: '', command: null as never };
    if (outcome.status === 'rejected') throw outcome.reason;
    const { claimed, session } = outcome.value;
    const expected = await claimCommand(mongo, command, HOLDER);
    t.equal(claimed.kind, expected.kind, state);
    if (claimed.kind === 'refused' || expected.kind === 'refused') continue;
    const { attempts: spent, fence, lapses, workerId, status } = expected.command;
    t.match(claimed.command, { attempts: spent, fence, lapses, workerId, status }, state);
    t.equal(claimed.command.session ?? null, claimed.kind === 'claimed' ? session : null, `${state}: its own session`);
  }
});

t.test('ends that are stored together: a lost lease and a stale document leave the others alone', async (t) => {
  const claim = openClaims(mongo);
  const commit = openCommits(mongo, 5 * SECOND);
  const graded = async (name: string) => {
    const attempt = await storeAttempt(mongo, SUBMITTED);
    return { name, attempt, command: await postGrading(mongo, attempt) };
  };
  const all = [];
  for (const name of ['first', 'lost', 'stale', 'last']) all.push(await graded(name));
  const outcomes = await withSessions(all, async ({ name, attempt, command }, session) => {
    const claimed = await claim(command, { ...HOLDER, session });
    if (claimed.kind !== 'claimed') throw new Error(claimed.kind);
    if (name === 'lost') await mailboxOf(mongo, 'grading').updateOne({ _id: command._id }, { $inc: { fence: 1 } });
    if (name === 'stale') await attempts(mongo).updateOne({ _id: attempt._id }, { $set: { stamp: 'other' } });
    const update = { $set: { status: 'GRADED' } };
    const filter = { ...whereKey(attempt), stamp: attempt.stamp };
    const grade = { collection: 'attempts', models: [{ updateOne: { filter, update } }], matched: 1 };
    const follower = newCommand({
      queue: 'upkeep:analytics',
      key: `after:${attempt._id}`,
      subject: attempt._id,
      body: { attemptId: attempt._id, gradedAt: new Date(), resultsReleasedAt: null } as never,
      maxAttempts: 3,
      now: Date.now(),
    });
    const writes = [grade, inserts(COMMANDS, [follower])];
    await commit({ command: claimed.command, next: DONE, writes, session, apart: false });
  });

  t.match(outcomes, [
    { status: 'fulfilled' },
    { reason: { name: 'LeaseLost' } },
    { reason: { name: 'Stale' } },
    { status: 'fulfilled' },
  ]);
  for (const { name, attempt, command } of all) {
    const isStored = name === 'first' || name === 'last';
    t.equal((await again(mongo, command)).status, isStored ? 'DONE' : 'PENDING', name);
    t.match(await attempts(mongo).findOne({ _id: attempt._id }), { status: isStored ? 'GRADED' : 'SUBMITTED' }, name);
    const followers = await mailboxOf(mongo, 'upkeep:analytics').countDocuments({
      queue: 'upkeep:analytics',
      subject: attempt._id,
    });
    t.equal(followers, isStored ? 1 : 0, `${name}: all or nothing`);
  }
});

t.test('ends without effects that are stored together', async (t) => {
  const claim = openClaims(mongo);
  const commit = openCommits(mongo, 5 * SECOND);
  const all: Command[] = [];
  for (let n = 0; n < 5; n++) all.push(await postGrading(mongo, await storeAttempt(mongo, SUBMITTED)));
  const [, waiting, second] = all;
  if (second !== undefined) await STATES['due again']?.(second);
  sent.taken();
  const outcomes = await withSessions(all, async (command, session) => {
    const claimed = await claim(command, { ...HOLDER, session });
    if (claimed.kind !== 'claimed') throw new Error(claimed.kind);
    const done = { to: 'DONE', result: { attemptId: command.subject } } as const;
    const next = command === waiting ? ({ to: 'AGAIN', inMs: HOUR, unspent: true, error: null } as const) : done;
    await commit({ command: claimed.command as CommandOf<'grading'>, next, writes: [], session, apart: false });
  });
  t.ok(outcomes.every(({ status }) => status === 'fulfilled'));
  t.strictSame(
    sent.taken().filter((name) => name !== 'endSessions'),
    ['update', 'find', 'update'],
    'three commands',
  );
  for (const command of all) {
    const done = { status: 'DONE', result: { attemptId: command.subject }, fence: command === second ? 2 : 1 };
    t.match(await again(mongo, command), command === waiting ? { status: 'PENDING', attempts: 0, result: null } : done);
  }
});

t.test('a group whose commit has an unknown outcome is not written again', async (t) => {
  const commits: string[] = [];
  const client = tappedCommits(mongo, (commit) => async () => {
    commits.push('sent');
    await commit();
    const late = new MongoServerError({ code: 64, message: 'waiting for replication timed out' });
    late.addErrorLabel('UnknownTransactionCommitResult');
    throw late;
  });
  const submit = gatherTransactions<{ attempt: Attempt; session?: ClientSession }, string>(
    { ...mongo, client },
    {
      budgetMs: 0,
      alone: () => Promise.reject(new Error('written again')),
      async together(group, session) {
        const $set = { status: 'SUBMITTED' } as const;
        await attempts(mongo).updateMany(
          { _id: { $in: group.map(({ attempt }) => attempt._id) } },
          { $set },
          { session },
        );
        return group.map(() => 'submitted');
      },
    },
  );
  const pair = [await storeAttempt(mongo), await storeAttempt(mongo)];
  const outcomes = await Promise.allSettled(pair.map((attempt) => submit({ attempt })));
  t.match(outcomes, [{ reason: { code: 64 } }, { reason: { code: 64 } }]);
  t.strictSame(commits, ['sent']);
});

t.test('submits of the same moment: those that are submitted already take none of the others along', async (t) => {
  const submit = openSubmits(mongo, 5 * SECOND);
  const all = [];
  for (let n = 0; n < 6; n++) all.push(await storeAttempt(mongo, n === 2 ? SUBMITTED : {}));
  const wanted = {
    source: 'STUDENT',
    overdueByMs: null,
    maxAttempts: 10,
    now: Date.now(),
    budgetMs: 5 * SECOND,
  } as const;
  const mixed = await withSessions(all, (attempt, session) => submit({ ...wanted, attempt, session }));
  t.match(
    mixed.map((one) => (one.status === 'fulfilled' ? one.value.kind : one.reason)),
    ['submitted', 'submitted', 'unchanged', 'submitted', 'submitted', 'submitted'],
  );
  for (const [n, { _id }] of all.entries()) {
    t.match(await attempts(mongo).findOne({ _id }), { status: 'SUBMITTED' });
    t.equal(
      (await findLive(mongo, 'grading', `grading:${_id}`)) === null,
      n === 2,
      'one grading command for each submit',
    );
  }
  const again = await storeAttempt(mongo);
  const twice = await withSessions([again, again], (attempt, session) => submit({ ...wanted, attempt, session }));
  t.match(
    twice.map((one) => (one.status === 'fulfilled' ? one.value.kind : one.reason)).sort(),
    ['submitted', 'unchanged'],
    'two submits of one attempt',
  );
});

t.test('starts of the same moment: one that a unique index refuses takes none of the others along', async (t) => {
  const { insert } = openStartStore(mongo, 5 * SECOND);
  const open = freshAttempt();
  const others = [freshAttempt(), freshAttempt()];
  const same = { ...freshAttempt(), studentId: open.studentId, examId: open.examId };
  const results = await Promise.all(
    [open, ...others, same].map((attempt) => insert(attempt, { seat: null, voided: [] })),
  );
  t.same(
    results.map(({ kind }) => kind),
    ['inserted', 'inserted', 'inserted', 'raced'],
  );
  const ids = [open, ...others].map(({ _id }) => _id);
  t.equal(await attempts(mongo).countDocuments({ _id: { $in: ids } }), 3);
});
