import t from 'tap';
import { OPERATOR_AUDIT, operatorAudit } from '#infra/mongo/operator-audit.ts';
import { withStep } from '#testing/actors/scripted-actor.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { expire } from '#testing/stored/stored-commands.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { deadGroups } from './dead-groups.ts';
import { chosenLetters, type DeadLetterFilter, findCommand, markDead, replayDead } from './dead-letters.ts';
import { queueDepths } from './queue-depths.ts';

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
