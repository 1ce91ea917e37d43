import { createServer } from 'node:net';
import { MongoNetworkError } from 'mongodb';
import t from 'tap';
import { type CommandOf, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Queue } from '#shared/kernel/command.ts';
import { type Step, scriptActor, withStep } from '#testing/actors/test-kernel.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { endedWell, type Feature, kernelSuite, type Scene } from '#testing/suites/kernel-suite.ts';
import { gate } from '#testing/until.ts';
import type { Effects } from './actor.ts';
import { runCommand } from './run-command.ts';

const FEATURES: readonly Feature[] = [
  {
    name: 'done settles the command together with its effects and notifies waiting front doors',
    async show(scene) {
      const { t, mongo, subject, actor } = scene;
      const [kernel, command] = [scene.kernel(), await subject.post()];
      t.equal(await subject.effects(command), 0, 'no effect before the run');
      t.equal(await runCommand(kernel, actor, command), subject.ends.result);
      await endedWell(scene, command);
      const now = await again(mongo, command);
      t.equal(now.fence, 1);
      if (subject.ends.result === 'snoozed') {
        t.ok(now.nextRunAt.getTime() > Date.now(), 'its next run is in the future');
        return;
      }
      t.strictSame(kernel.announced, actor.yieldsTo === undefined ? [command._id] : []);
      t.type(now.settledAt, Date);
      t.equal(await runCommand(kernel, actor, command), 'not-ours', 'a late ring claims nothing');
      await endedWell(scene, command);
    },
  },
  {
    name: 'rejected changes nothing, notifies waiting front doors and frees the key',
    applies: (subject) => subject.postRejected !== undefined,
    async show({ t, mongo, subject, actor, kernel: make }) {
      const kernel = make();
      const command = await subject.postRejected?.();
      if (command === undefined) return;
      const twin = () => newCommand({ ...(command as CommandOf<Queue>), now: Date.now(), maxAttempts: 10 });
      t.equal((await postCommand(mongo, twin())).created, false, 'before the run, the key is taken');
      t.equal(await runCommand(kernel, actor, command), 'rejected');
      const now = await again(mongo, command);
      t.match(now, { status: 'REJECTED', lockedUntil: null });
      t.notOk('live' in now);
      t.strictSame(kernel.announced, actor.yieldsTo === undefined ? [command._id] : []);
      t.equal(await subject.effects(command), 0);
      t.equal((await postCommand(mongo, twin())).created, true, 'after the run, the key is free');
    },
  },
  {
    name: 'retry spends the attempt and waits for the backoff',
    show: (scene) => spends(scene, async () => ({ kind: 'retry', error: new Error('attempt 7 of "abc" failed') })),
  },
  {
    name: 'a thrown error is treated as retry',
    show: (scene) => spends(scene, () => Promise.reject(new Error('attempt 7 of "abc" failed'))),
  },
  {
    name: 'snooze refunds the attempt',
    show: (scene) => spendsNothing(scene, async () => ({ kind: 'snooze', afterMs: 50_000 }), 50_000, 'snoozed'),
  },
  {
    name: 'an outage of MongoDB spends no attempt',
    show: (scene) => spendsNothing(scene, () => Promise.reject(new MongoNetworkError('gone')), 1_000),
  },
  {
    name: 'a network fault spends no attempt',
    show: (scene) => spendsNothing(scene, async () => Promise.reject(await refusedCall()), 1_000),
  },
  {
    name: 'the attempt is counted before the run',
    async show(scene) {
      const { t, mongo, subject, actor } = scene;
      const [reached, go] = [gate(), gate()];
      const slow = scriptActor(actor, async (_run, real) => {
        reached.open();
        await go.opened;
        return real();
      });
      const command = await subject.post();
      const run = runCommand(scene.kernel(), slow, command);
      await reached.opened;
      const now = await again(mongo, command);
      t.match(now, { status: 'PENDING', attempts: 1, fence: 1, workerId: 'worker-1' });
      t.strictSame(now.lockedUntil, now.nextRunAt, 'one index finds due and abandoned commands');
      t.ok(now.nextRunAt.getTime() > Date.now());
      go.open();
      await run;
      await endedWell(scene, command);
    },
  },
  {
    name: 'a command that always throws is DEAD after its attempts and blocks no other command',
    async show({ t, mongo, subject, actor, kernel: make }) {
      const [kernel, poison, healthy] = [make(), await subject.post({ maxAttempts: 3 }), await subject.post()];
      const throws = withStep(actor, () => Promise.reject(new Error('no')));
      for (const result of ['retried', 'retried', 'dead']) {
        await expire(mongo, poison);
        t.equal(await runCommand(kernel, throws, poison), result);
      }
      const dead = await again(mongo, poison);
      t.match(dead, { status: 'DEAD', attempts: 3, lockedUntil: null, lastError: { fingerprint: 'Error: no' } });
      t.ok(dead.live, 'a dead command keeps its key, because an operator may replay it');
      t.strictSame(kernel.announced, actor.yieldsTo === undefined ? [poison._id] : []);
      await expire(mongo, poison);
      t.equal(await runCommand(kernel, actor, poison), 'not-ours', 'a dead command is not claimed');
      t.equal(await subject.effects(poison), 0);
      t.equal(await runCommand(kernel, actor, healthy), subject.ends.result);
    },
  },
  {
    name: 'the outcome dead ends the command at once',
    async show({ t, mongo, subject, actor, kernel: make }) {
      const [kernel, command] = [make(), await subject.post()];
      const hopeless = scriptActor(actor, async () => ({ kind: 'dead', error: new Error('never') }));
      t.equal(await runCommand(kernel, hopeless, command), 'dead');
      t.match(await again(mongo, command), { status: 'DEAD', attempts: 1, lastError: { message: 'never' } });
    },
  },
  {
    name: 'effects of a retry or a death commit in one transaction with the command',
    async show({ t, mongo, subject, actor, kernel: make }) {
      const notes = mongo.db.collection<{ command: string; status: string; nextRunAt: Date }>('failures');
      const command = await subject.post({ maxAttempts: 2 });
      const error = new Error('no');
      const noting: Effects = async (session) => {
        const settled = await mailboxOf(mongo, command.queue).findOne({ _id: command._id }, { session });
        if (settled === null) throw new Error('the command is gone');
        const { status, nextRunAt } = settled;
        await notes.insertOne({ command: command._id, status, nextRunAt }, { session });
      };
      const fails = scriptActor(actor, ...Array(2).fill(async () => ({ kind: 'retry', error, effects: noting })));
      const noted = () =>
        notes.find({ command: command._id }, { projection: { _id: 0, status: 1, nextRunAt: 1 } }).toArray();
      t.equal(await runCommand(make(), fails, command), 'retried');
      const resting = await again(mongo, command);
      t.strictSame(
        await noted(),
        [{ status: 'PENDING', nextRunAt: resting.nextRunAt }],
        'the effects see the time of the next run',
      );
      await expire(mongo, command);
      t.equal(await runCommand(make(), fails, command), 'dead', 'a retry of the last attempt is a death');
      t.match(await noted(), [{ status: 'PENDING' }, { status: 'DEAD' }]);

      const hopeless = await subject.post();
      const writes = async (session: Parameters<Effects>[0]) => {
        await notes.insertOne({ command: hopeless._id, status: 'DEAD', nextRunAt: new Date() }, { session });
      };
      const breaks = async (session: Parameters<Effects>[0]) => {
        await writes(session);
        throw new Error('the effects are broken');
      };
      const steps = [breaks, writes].map((effects) => async () => ({ kind: 'dead', error, effects }) as const);
      const dies = scriptActor(actor, ...steps);
      t.equal(await runCommand(make(), dies, hopeless), 'retried');
      t.match(await again(mongo, hopeless), { status: 'PENDING', lastError: { message: 'the effects are broken' } });
      t.equal(await notes.countDocuments({ command: hopeless._id }), 0, 'neither the death nor its effects are stored');
      await expire(mongo, hopeless);
      t.equal(await runCommand(make(), dies, hopeless), 'dead');
      t.equal(await notes.countDocuments({ command: hopeless._id }), 1, 'the death and its effects are stored');
    },
  },
];

t.test('each outcome leaves its command in its state', (t) => kernelSuite(t, FEATURES));

async function spends(scene: Scene, step: Step): Promise<void> {
  const { t, mongo, subject, actor } = scene;
  const [kernel, command] = [scene.kernel(), await subject.post()];
  // A backoff longer than any pause of a busy machine, so that it differs from a command that is due at once.
  const failing = { ...scriptActor(actor, step), backoff: { baseMs: 40_000, capMs: 50_000 } };
  const before = Date.now();
  t.equal(await runCommand(kernel, failing, command), 'retried');
  const resting = await again(mongo, command);
  t.match(resting, {
    status: 'PENDING',
    attempts: 1,
    lockedUntil: null,
    workerId: null,
    lastError: { fingerprint: 'Error: attempt <n> of <value> failed', message: 'attempt 7 of "abc" failed' },
  });
  const restMs = resting.nextRunAt.getTime() - before;
  // Jitter only lengthens a wait.
  t.ok(restMs >= 40_000, `the command waits for its backoff, ${restMs} ms`);
  t.strictSame(kernel.announced, [], 'an unsettled command is not announced');
  t.equal(await subject.effects(command), 0);
  t.equal(await runCommand(kernel, actor, command), 'not-ours', 'a ring does not shorten the backoff');
  await expire(mongo, command);
  t.equal(await runCommand(kernel, actor, command), subject.ends.result);
  await endedWell(scene, command, 2);
}

async function spendsNothing(
  scene: Scene,
  step: Step,
  restMs: number,
  ending: 'failed' | 'snoozed' = 'failed',
): Promise<void> {
  const { t, mongo, subject, actor } = scene;
  const [kernel, command] = [scene.kernel(), await subject.post({ maxAttempts: 1 })];
  const failing = scriptActor(actor, step, step);
  for (const round of [1, 2]) {
    const before = Date.now();
    t.equal(await runCommand(kernel, failing, command), ending);
    const now = await again(mongo, command);
    t.match(now, { status: 'PENDING', attempts: 0, fence: round, lockedUntil: null });
    t.ok(now.nextRunAt.getTime() >= before + restMs - 100, 'the command waits');
    t.equal(await subject.effects(command), 0);
    await expire(mongo, command);
  }
  t.equal(await runCommand(kernel, failing, command), subject.ends.result);
  await endedWell(scene, command);
}

/** Returns the error of a call to a service that does not run. */
async function refusedCall(): Promise<unknown> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  const port = typeof address === 'object' ? address?.port : 0;
  return fetch(`http://127.0.0.1:${port}/`).catch((error: unknown) => error);
}
