import t from 'tap';
import { claimCommand } from '#infra/mongo/mailbox/claim.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { replayDead } from '#infra/mongo/mailbox/dead-letters.ts';
import { refundAttempt, undoClaim } from '#infra/mongo/mailbox/settle.ts';
import type { Command } from '#shared/kernel/command.ts';
import { type Step, scriptActor, testKernel, testWorkerDeps, withEffect } from '#testing/actors/test-kernel.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { faultyMongo, losingCommit, settles } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { actorSubjects, makeActor } from '#testing/suites/actor-subjects.ts';
import { endedWell } from '#testing/suites/kernel-suite.ts';
import { gate } from '#testing/until.ts';
import { runCommand } from './run-command.ts';

const LONG_MS = 50_000;

/** Stores a grading command with one spent attempt, and returns it with a kernel that loses the reply to its settlement. */
async function withLostReply(mongo: TestMongo, script: { step: Step; meanwhile?: () => Promise<void> }) {
  const grading = makeActor('grading', testWorkerDeps(mongo));
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
  const fails = scriptActor(grading, () => Promise.reject(new Error('once')));
  await runCommand(testKernel(mongo), fails, command);
  await expire(mongo, command);
  const meanwhile = script.meanwhile === undefined ? {} : { meanwhile: script.meanwhile };
  const lost = faultyMongo(mongo, { method: 'updateOne', how: 'lost', times: 1, when: settles, ...meanwhile });
  const kernel = testKernel(lost.mongo, { workerId: 'cut-off' });
  return { grading, command, kernel, actor: scriptActor(grading, script.step), left: lost.left };
}

t.test('a commit that succeeded although it was reported as failed is announced as committed, once', async (t) => {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  const deps = testWorkerDeps(mongo, { ...neighbours.env, ...neighbours.webhookEnv, ...neighbours.ownersEnv });
  for (const subject of actorSubjects(mongo, neighbours)) {
    const actor = makeActor(subject.name, deps);
    const lost = losingCommit(mongo);
    const begun: string[] = [];
    const cutOff = scriptActor(actor, async (_run, real) => {
      const outcome = withEffect(mongo, await real(), async () => undefined);
      lost.loseNext();
      return outcome.kind === 'done' ? { ...outcome, after: () => void begun.push('analytics') } : outcome;
    });
    const command = await subject.post();
    const kernel = testKernel(lost.mongo);
    t.equal(await runCommand(kernel, cutOff, command), subject.ends.result, subject.name);
    t.equal(cutOff.runs.length, 1);
    const isOver = subject.ends.result === 'done';
    const isAwaited = isOver && actor.yieldsTo === undefined;
    t.strictSame(kernel.announced, isAwaited ? [command._id] : [], 'the waiting front doors are notified');
    t.equal(begun.length, isOver ? 1 : 0, 'the work of `after` starts once');
    await endedWell({ t, mongo, subject, actor, deps, kernel: () => kernel }, command);
  }
});

t.test('a snooze or retry whose reply was lost is applied once', async (t) => {
  const mongo = await openTestMongo(t);
  const error = new Error('not now');
  const snoozed = await withLostReply(mongo, { step: async () => ({ kind: 'snooze', afterMs: LONG_MS }) });
  const { command } = snoozed;
  t.equal(await runCommand(snoozed.kernel, snoozed.actor, command), 'snoozed');
  t.equal(snoozed.left(), 0);
  t.match(await again(mongo, command), { status: 'PENDING', attempts: 1, fence: 2, lockedUntil: null, session: null });

  const retried = await withLostReply(mongo, { step: async () => ({ kind: 'retry', error, afterMs: LONG_MS }) });
  t.equal(await runCommand(retried.kernel, retried.actor, retried.command), 'retried');
  t.match(await again(mongo, retried.command), { status: 'PENDING', attempts: 2, fence: 2, lockedUntil: null });
});

t.test(
  'a worker whose settlement reply was lost refunds no attempt of its rival and none that failed by itself',
  async (t) => {
    const mongo = await openTestMongo(t);
    const outcomes: [Step, number][] = [
      // The settlement itself refunds the attempt, so the attempt that is spent later belongs to the rival.
      [async () => ({ kind: 'snooze', afterMs: 0, error: new Error('away') }), 2],
      [async () => ({ kind: 'retry', error: new Error('not yet') }), 3],
    ];
    for (const [step, attempts] of outcomes) {
      const go = gate();
      let rivals: Promise<unknown> = Promise.resolve();
      const { grading, command, kernel, actor } = await withLostReply(mongo, {
        step,
        async meanwhile() {
          await expire(mongo, command);
          const claimed = gate();
          const rival = scriptActor(grading, async (_run, real) => {
            claimed.open();
            await go.opened;
            return real();
          });
          rivals = runCommand(testKernel(mongo, { workerId: 'rival' }), rival, command);
          await claimed.opened;
        },
      });
      t.equal(await runCommand(kernel, actor, command), 'fenced');
      t.match(await again(mongo, command), { attempts, fence: 3, workerId: 'rival', status: 'PENDING' });
      go.open();
      t.equal(await rivals, 'done');
    }
  },
);

t.test('an attempt is refunded once, and only while every later claim has spent its own attempt', async (t) => {
  const mongo = await openTestMongo(t);
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
  const claim = async (workerId: string) => {
    await expire(mongo, command);
    const claimed = await claimCommand(mongo, command, { workerId, leaseMs: 60_000 });
    if (claimed.kind !== 'claimed') throw new Error('not due');
    return claimed.command;
  };
  const attempts = async () => (await again(mongo, command)).attempts;
  const [first, second] = [await claim('first'), await claim('second')];
  await refundAttempt(mongo, second);
  t.equal(await attempts(), 2, 'no refund while no later claim exists');
  await refundAttempt(mongo, first);
  t.equal(await attempts(), 1);
  await refundAttempt(mongo, first);
  t.equal(await attempts(), 1, 'no second refund when the first reply was lost');
  await undoClaim(mongo, command, { workerId: 'second' });
  t.match(await again(mongo, command), { attempts: 0, session: null });
  await claim('third');
  await refundAttempt(mongo, second);
  t.equal(await attempts(), 1, 'the claim of the second worker was undone; this attempt belongs to the third');
});

t.test('a command names no session once no worker runs it any more', async (t) => {
  const mongo = await openTestMongo(t);
  const grading = makeActor('grading', testWorkerDeps(mongo));
  const circular: Record<string, unknown> = {};
  circular.itself = circular;
  const outcomes: [Step | null, Partial<Command>][] = [
    [null, { status: 'DONE' }],
    [async () => ({ kind: 'rejected', result: null }), { status: 'REJECTED' }],
    [async () => ({ kind: 'retry', error: new Error('no') }), { status: 'PENDING', attempts: 1 }],
    [async () => ({ kind: 'snooze', afterMs: 0 }), { status: 'PENDING', attempts: 0 }],
    [async () => ({ kind: 'dead', error: new Error('no') }), { status: 'DEAD' }],
    // MongoDB cannot store this result, so the command stays leased.
    [async () => ({ kind: 'done', result: circular }), { status: 'PENDING', workerId: 'worker-1' }],
  ];
  for (const [step, state] of outcomes) {
    const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
    let held: unknown;
    const notesSession = scriptActor(grading, async (run, real) => {
      held = (await again(mongo, command)).session;
      return step === null ? real() : step(run, real);
    });
    await runCommand(testKernel(mongo), notesSession, command);
    t.type(held, 'string', 'a running command names its session');
    t.match(await again(mongo, command), { ...state, session: null }, JSON.stringify(state));
  }

  const dead = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
  await mongo.db
    .collection<Command>(COMMANDS)
    .updateOne({ _id: dead._id }, { $set: { status: 'DEAD', session: 'of old' } });
  const [ahead, by] = [Date.now() + 3_600_000, { operator: 'op-1', reason: 'a test' }];
  t.equal(await replayDead(mongo, await again(mongo, dead), { ...by, now: ahead }), true);
  const revived = await again(mongo, dead);
  t.match(revived, { status: 'PENDING', session: null, replays: 1 });
  t.ok(revived.nextRunAt.getTime() < ahead, 'due by the clock of MongoDB, not of the operator');
});
