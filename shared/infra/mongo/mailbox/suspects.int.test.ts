import t, { type Test } from 'tap';
import { type Command, UNLIMITED_ATTEMPTS } from '#shared/kernel/command.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { makeSuspect } from '#testing/stored/stored-suspects.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { claimCommand } from './claim.ts';
import { COMMANDS } from './commands.ts';
import { replayDead } from './dead-letters.ts';
import { endLease, LeaseLost, type NextState, refundAttempt, settleCommand, undoClaim } from './settle.ts';
import { allSuspects, extendSlot, freeSlot, ISOLATION_SLOT, nextSuspect, takeSlot } from './suspects.ts';

const MINUTE = 60_000;
const error = { fingerprint: 'Error: no', message: 'no', code: null };

/** Opens mailboxes with functions that claim a command as a worker beside others does, and as one in the isolation slot. */
async function openScene(t: Test) {
  const mongo = await openTestMongo(t);
  return {
    mongo,
    post: async () => postGrading(mongo, await storeAttempt(mongo, SUBMITTED)),
    claim: (command: Command, workerId = 'worker') =>
      claimCommand(mongo, command as Command & { queue: 'grading' }, { workerId, leaseMs: MINUTE }),
    /** Returns `slot taken` if another worker has the slot. */
    claimAlone: async (command: Command, workerId = 'alone') => {
      const aloneUntil = await takeSlot(mongo, command, { workerId, ms: MINUTE });
      if (aloneUntil === null) return { kind: 'slot taken' } as const;
      const queue = 'grading' as const;
      return claimCommand(mongo, { ...command, queue }, { workerId, leaseMs: MINUTE, aloneUntil });
    },
  };
}

/** Ends the isolation slot and the lease in it, as time would. */
async function endSlot(mongo: TestMongo, command: Command): Promise<void> {
  await mongo.db.collection(ISOLATION_SLOT).updateOne({}, { $set: { until: new Date(Date.now() - MINUTE) } });
  await expire(mongo, command);
}

t.test(
  'the claim that takes over an expired lease counts the lapse, and the second one holds the command',
  async (t) => {
    const { mongo, post, claim } = await openScene(t);
    const command = await post();
    const first = await claim(command, 'first');
    t.equal((await again(mongo, command)).lapses, undefined, 'a first claim takes over nothing');
    await expire(mongo, command);
    t.match(await claim(command, 'second'), { kind: 'claimed', command: { lapses: 1, attempts: 2 } });
    await expire(mongo, command);
    const held = { lapses: 2, attempts: 2, status: 'PENDING', lockedUntil: null, workerId: null, session: null };
    t.match(await claim(command, 'third'), { kind: 'held', command: held });
    t.match(await claim(command), { kind: 'refused' }, 'a held command is not due');
    await expire(mongo, command);
    t.match(await claim(command), { kind: 'held', command: held }, 'and after an hour it is held again');
    if (first.kind !== 'claimed') throw new Error('not due');
    const late = settleCommand(mongo, first.command, { to: 'DONE', result: { attemptId: 'a' } });
    await t.rejects(late, LeaseLost, 'a worker that wakes up writes nothing');
    t.match(await again(mongo, command), held);
  },
);

t.test('an outcome, a refund and a stop are no lapses, and an undone claim keeps those before it', async (t) => {
  const { mongo, post, claim } = await openScene(t);
  /** Returns the lapses of a command after one lapse, and a claim that ends like this. */
  const after = async (end: NextState<'grading'> | 'undone' | 'refunded') => {
    const command = await post();
    const first = await claim(command, 'first');
    await expire(mongo, command);
    const second = await claim(command, 'second');
    if (first.kind !== 'claimed' || second.kind !== 'claimed') throw new Error('not due');
    if (end === 'undone') await undoClaim(mongo, command, { workerId: 'second' });
    else if (end === 'refunded') await refundAttempt(mongo, first.command);
    else await settleCommand(mongo, second.command, end);
    return (await again(mongo, command)).lapses ?? 0;
  };
  const later = { to: 'AGAIN', inMs: 0 } as const;
  t.equal(await after({ ...later, unspent: false, error }), 0, 'retry');
  t.equal(await after({ ...later, unspent: true, error: null }), 0, 'snooze');
  t.equal(await after({ ...later, unspent: true, error }), 1, 'a stop or an outage proves nothing');
  t.equal(await after('undone'), 1);
  t.equal(await after('refunded'), 0, 'an outage of MongoDB made the first lease expire');
});

t.test('of ten workers that race for two suspects, one runs one of them at a time', async (t) => {
  const { mongo, post, claimAlone } = await openScene(t);
  const suspects = [await makeSuspect(mongo, await post()), await makeSuspect(mongo, await post())];
  const race = async (raced: readonly Command[]) => {
    const claims = raced.flatMap((suspect) => Array.from({ length: 5 }, (_, n) => claimAlone(suspect, `worker-${n}`)));
    return (await Promise.all(claims)).flatMap((claim) => (claim.kind === 'claimed' ? [claim.command] : []));
  };
  const [one, ...more] = await race(suspects);
  if (one === undefined) throw new Error('no worker has claimed a suspect');
  t.strictSame(more, []);
  t.match(one, { lapses: 2, attempts: 3 });
  const slot = await mongo.db.collection(ISOLATION_SLOT).findOne();
  t.match(slot, { commandId: one._id, queue: 'grading', workerId: one.workerId, until: one.lockedUntil });
  t.strictSame(await race(suspects), [], 'no worker takes the slot before its end');

  // The worker of the first one was killed.
  await endSlot(mongo, one);
  const others = suspects.filter(({ _id }) => _id !== one._id);
  t.match(
    await race(others),
    others.map(({ _id }) => ({ _id })),
    'then the other one runs',
  );
});

t.test('a run alone that lapses is a death, and its replay runs alone again', async (t) => {
  const { mongo, post, claim, claimAlone } = await openScene(t);
  const suspect = await makeSuspect(mongo, await post());
  t.match(await nextSuspect(mongo, ['grading']), { _id: suspect._id, queue: 'grading', key: suspect.key });
  await claimAlone(suspect);
  t.equal(await nextSuspect(mongo, ['grading']), null);
  t.match(await claim(suspect), { kind: 'refused' });
  await endSlot(mongo, suspect);
  const dead = { status: 'DEAD', lapses: 3, attempts: 3, lastError: { code: 'POISONED', fingerprint: 'Poisoned' } };
  t.match(await claim(suspect), { kind: 'dead', command: dead });
  await replayDead(mongo, await again(mongo, suspect), { operator: 'op-1', reason: 'a test', now: Date.now() });
  t.match(await nextSuspect(mongo, ['grading']), { _id: suspect._id });
  t.match(await claim(suspect), { kind: 'held' });
  t.match(await claimAlone(suspect), { kind: 'claimed', command: { attempts: 1 } });
});

t.test(
  'the lease and the slot of a worker that ended are free at once, and those of a later one are not',
  async (t) => {
    const { mongo, post, claim, claimAlone } = await openScene(t);
    const [ended, next] = [await makeSuspect(mongo, await post()), await makeSuspect(mongo, await post())];
    await claimAlone(ended, 'ended');
    await endLease(mongo, ended, { workerId: 'another' });
    t.match(await claim(ended), { kind: 'refused' });
    for (const workerId of ['another', 'ended']) {
      await endLease(mongo, ended, { workerId });
      await freeSlot(mongo, { workerId });
    }
    t.match(await claim(ended), { kind: 'dead' });
    t.match(await claimAlone(next, 'next'), { kind: 'claimed' });
    await freeSlot(mongo, { workerId: 'ended' });
    t.match(await claimAlone(next, 'late'), { kind: 'slot taken' });
  },
);

t.test('the slot can be extended until it ends, and claims only suspects', async (t) => {
  const { mongo, post, claim, claimAlone } = await openScene(t);
  const [healthy, suspect] = [await post(), await makeSuspect(mongo, await post())];
  t.match(await claimAlone(healthy, 'healthy'), { kind: 'refused' });
  t.match(await claim(healthy), { kind: 'claimed' });
  await freeSlot(mongo, { workerId: 'healthy' });
  const over = { workerId: 'w', leaseMs: MINUTE, aloneUntil: new Date(Date.now() - MINUTE) };
  t.match(await claimCommand(mongo, suspect, over), { kind: 'refused' }, 'the slot has ended meanwhile');

  const until = await takeSlot(mongo, suspect, { workerId: 'alone', ms: MINUTE });
  const longer = await extendSlot(mongo, suspect, { workerId: 'alone', ms: 2 * MINUTE });
  t.ok(longer.getTime() >= Number(until) + MINUTE);
  await t.rejects(extendSlot(mongo, suspect, { workerId: 'another', ms: MINUTE }), LeaseLost);
  await endSlot(mongo, suspect);
  await t.rejects(extendSlot(mongo, suspect, { workerId: 'alone', ms: MINUTE }), LeaseLost);
});

t.test('a recurring command never dies of lapses: it runs alone again', async (t) => {
  const { mongo, post, claim, claimAlone } = await openScene(t);
  const command = await post();
  const change = { $set: { maxAttempts: UNLIMITED_ATTEMPTS } };
  await mongo.db.collection<Command>(COMMANDS).updateOne({ _id: command._id }, change);
  const suspect = await makeSuspect(mongo, command);
  for (let lapse = 1; lapse <= 2; lapse++) {
    t.match(await claimAlone(suspect), { kind: 'claimed' });
    await endSlot(mongo, suspect);
    t.match(await claim(suspect), { kind: 'held', command: { status: 'PENDING', lapses: 2 } });
  }
});

t.test('operators read a database without the index of suspects, as before its migration', async (t) => {
  const mongo = await openTestMongo(t);
  await makeSuspect(mongo, await postGrading(mongo, await storeAttempt(mongo, SUBMITTED)));
  t.equal((await allSuspects(mongo, Date.now())).length, 1);
  await mongo.db.collection(COMMANDS).dropIndex('suspects');
  t.strictSame(await allSuspects(mongo, Date.now()), []);
});
