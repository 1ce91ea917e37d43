import t, { type Test } from 'tap';
import { OPERATOR_AUDIT, operatorAudit } from '#infra/mongo/operator-audit.ts';
import { type Command, UNLIMITED_ATTEMPTS } from '#shared/kernel/command.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { testKernel, testWorkerDeps, withStep } from '#testing/actors/test-kernel.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { again, expire, makeSuspect } from '#testing/stored/stored-commands.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { claimCommand } from './claim.ts';
import { COMMANDS } from './commands.ts';
import { deadGroups } from './dead-groups.ts';
import { chosenLetters, type DeadLetterFilter, findCommand, markDead, replayDead } from './dead-letters.ts';
import { queueDepths } from './queue-depths.ts';
import { endLease, LeaseLost, type NextState, refundAttempt, settleCommand, undoClaim } from './settle.ts';
import { allSuspects, extendSlot, freeSlot, ISOLATION_SLOT, nextSuspect, takeSlot } from './suspects.ts';

t.test('a dead letter is acknowledged or dropped once, and only a replay revives the alarm', async (t) => {
  const mongo = await openTestMongo(t);
  const actor = makeActor('grading', testWorkerDeps(mongo));
  const fails = withStep(actor, () => Promise.reject(new Error('the disk is full')));
  const by = { operator: 'op-1', reason: 'known', now: Date.now() };
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 1 });
  const read = async () => {
    const found = await findCommand(mongo, command._id);
    if (found === null) throw new Error('the dead command is gone');
    return found;
  };
  const depth = async () => (await queueDepths(mongo, Date.now(), [])).find(({ queue }) => queue === 'grading');
  const actions = async () =>
    (await operatorAudit(mongo).find({}).sort({ _id: 1 }).toArray()).map(({ action }) => action);
  t.equal(await runCommand(testKernel(mongo), fails, command), 'dead');
  t.match(await depth(), { dead: 1, acknowledged: 0 });

  const first = await read();
  const clicks = await Promise.all(Array.from({ length: 5 }, () => markDead(mongo, first, 'ACKNOWLEDGED', by)));
  t.equal(clicks.filter((done) => done).length, 1, 'five operators at once: one acknowledgement');
  t.match(await depth(), { dead: 0, acknowledged: 1 });
  t.match(await deadGroups(mongo), { groups: [{ count: 1, acknowledged: 1 }], more: false });
  t.equal(await replayDead(mongo, first, by), true, 'an acknowledged letter is replayed');
  t.notOk('letter' in (await read()));
  t.equal(await runCommand(testKernel(mongo), fails, command), 'dead');
  t.match(await depth(), { dead: 1, acknowledged: 0 }, 'the second death raises the alarm again');
  t.equal(await markDead(mongo, first, 'DROPPED', by), false, 'the first death is over');

  const second = await read();
  t.equal(await markDead(mongo, second, 'DROPPED', by), true);
  t.match(await depth(), { dead: 0, acknowledged: 0 });
  t.strictSame(await deadGroups(mongo), { groups: [], more: false });
  t.match(await deadGroups(mongo, { letter: 'DROPPED' }), { groups: [{ count: 1 }] });
  t.equal(await replayDead(mongo, second, by), false, 'a dropped letter is never replayed');
  t.equal(await replayDead(mongo, await read(), by), false);
  t.equal(await markDead(mongo, await read(), 'ACKNOWLEDGED', by), false);
  t.equal(await runCommand(testKernel(mongo), actor, command), 'not-ours');
  t.strictSame(await actions(), ['dead.ack', 'dead.replay', 'dead.drop']);
});

t.test('dead letters are grouped by cause, chosen by a filter, and replayed once per death', async (t) => {
  const mongo = await openTestMongo(t);
  const deps = testWorkerDeps(mongo);
  const actor = makeActor('grading', deps);
  const dieOf = async (message: (id: string) => string) => {
    const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 1 });
    const fails = withStep(actor, () => Promise.reject(new TypeError(message(command._id))));
    t.equal(await runCommand(testKernel(mongo), fails, command), 'dead');
    return command;
  };
  const alike = [];
  for (let n = 0; n < 3; n++) alike.push(await dieOf((id) => `cannot read 'x${n}' of ${id} after ${n} ms`));
  const other = await dieOf(() => 'another cause');

  const { groups } = await deadGroups(mongo);
  t.match(groups, [
    { queue: 'grading', fingerprint: 'TypeError: cannot read <value> of <id> after <n> ms', count: 3 },
    { queue: 'grading', fingerprint: 'TypeError: another cause', count: 1, example: other._id },
  ]);
  t.equal(groups.length, 2);
  const ids = async ({ limit = 10, read, ...wanted }: DeadLetterFilter & { limit?: number; read?: number }) =>
    (await chosenLetters(mongo, wanted, { limit, read })).map((dead) => dead._id);
  const byId = [other, ...alike].map((command) => command._id).sort();
  t.strictSame(await ids({}), byId);
  t.strictSame(await ids({ limit: 2 }), byId.slice(0, 2));
  t.strictSame(await ids({ read: 1, cause: 'TypeError: another cause' }), [other._id]);
  t.strictSame(await ids({ cause: 'TypeError: another cause' }), [other._id]);
  t.strictSame(await ids({ queue: 'essayhandoff' }), []);
  t.strictSame(await ids({ subject: other.subject }), [other._id]);
  const at = (await findCommand(mongo, other._id))?.settledAt ?? new Date(0);
  t.strictSame(await ids({ since: at }), [other._id]);
  t.equal((await ids({ until: at })).length, 3);

  const dead = await findCommand(mongo, other._id);
  if (dead === null) throw new Error('the dead command is gone');
  const by = { operator: 'op-1', reason: 'the fault is mended', now: Date.now() - 1_000 };
  const clicks = await Promise.all(Array.from({ length: 10 }, () => replayDead(mongo, dead, by)));
  t.equal(clicks.filter((done) => done).length, 1, 'ten operators at once: one replay');
  t.match(await findCommand(mongo, other._id), { status: 'PENDING', attempts: 0, replays: 1, lockedUntil: null });
  const audit = () => mongo.db.collection(OPERATOR_AUDIT).find({}).toArray();
  t.match(await audit(), [
    { action: 'dead.replay', commandId: other._id, operator: 'op-1', reason: by.reason, lastError: dead.lastError },
  ]);

  const fails = withStep(actor, () => Promise.reject(new Error('not mended')));
  t.equal(await runCommand(testKernel(mongo), fails, dead), 'dead', 'the replayed command dies again');
  t.equal(await replayDead(mongo, dead, by), false, 'a replay of the first death does not replay the second');
  t.equal((await audit()).length, 1);
  const deadAgain = await findCommand(mongo, other._id);
  if (deadAgain === null) throw new Error('the dead command is gone');
  t.equal(await replayDead(mongo, deadAgain, by), true);
  await expire(mongo, deadAgain);
  t.equal(await runCommand(testKernel(mongo), actor, dead), 'done', 'a second replay succeeds with a new budget');
  t.equal(await replayDead(mongo, deadAgain, by), false, 'a done command is not replayed');
  t.equal((await audit()).length, 2);
  t.equal((await deadGroups(mongo)).groups.length, 1);
});

const error = { fingerprint: 'Error: no', message: 'no', code: null };

/** Opens mailboxes with functions that claim a command as a worker beside others does, and as one in the isolation slot. */
async function openSlot(t: Test) {
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
    const { mongo, post, claim } = await openSlot(t);
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
  const { mongo, post, claim } = await openSlot(t);
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
  const { mongo, post, claimAlone } = await openSlot(t);
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
  const { mongo, post, claim, claimAlone } = await openSlot(t);
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
    const { mongo, post, claim, claimAlone } = await openSlot(t);
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
  const { mongo, post, claim, claimAlone } = await openSlot(t);
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
  const { mongo, post, claim, claimAlone } = await openSlot(t);
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
