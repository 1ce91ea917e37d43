import { mock } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { ClientSession } from 'mongodb';
import t from 'tap';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { renewLease } from '#infra/mongo/mailbox/settle.ts';
import { extendSlot, ISOLATION_SLOT, type IsolationSlot, takeSlot } from '#infra/mongo/mailbox/suspects.ts';
import type { Command } from '#shared/kernel/command.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { scriptActor, type TestKernel, withEffect, withStep } from '#testing/actors/test-kernel.ts';
import { again, expire, makeSuspect } from '#testing/stored/stored-commands.ts';
import { endedWell, type Feature, kernelSuite, type Scene } from '#testing/suites/kernel-suite.ts';
import { gate, until } from '#testing/until.ts';
import { runCommand } from './run-command.ts';

const FEATURES: readonly Feature[] = [
  {
    name: 'exactly one of ten workers that race for a command runs it',
    async show(scene) {
      const { t, subject, actor } = scene;
      const command = await subject.post();
      const counted = scriptActor(actor);
      const workers = Array.from({ length: 10 }, (_, n) => scene.kernel({ workerId: `worker-${n}` }));
      const results = await Promise.all(workers.map((kernel) => runCommand(kernel, counted, command)));
      t.strictSame(
        results.filter((result) => result !== 'not-ours'),
        [subject.ends.result],
      );
      t.equal(counted.runs.length, 1);
      await endedWell(scene, command);
    },
  },
  {
    name: 'the worker renews its lease as long as the run lasts',
    async show(scene) {
      const { t, mongo, subject, actor } = scene;
      const [begun, go] = [gate(), gate()];
      const slow = scriptActor(actor, async (run, real) => {
        begun.open();
        await go.opened;
        run.signal.throwIfAborted();
        return real();
      });
      const command = await subject.post();
      const kernel = scene.kernel();
      const renewals = holdRenewals(t, kernel);
      const run = runCommand(kernel, slow, command);
      await begun.opened;
      for (let renewal = 1; renewal <= 2; renewal++) {
        // Shorten the lease by ten seconds, as time would, and keep it longer than any pause of a busy machine.
        const shortened = Number((await again(mongo, command)).lockedUntil) - 10 * SECOND;
        await mailboxOf(mongo, command.queue).updateOne(
          { _id: command._id },
          { $set: { lockedUntil: new Date(shortened) } },
        );
        renewals.arrive();
        await until('renewed', async () => Number((await again(mongo, command)).lockedUntil) > shortened);
        t.equal(await runCommand(scene.kernel({ workerId: 'rival' }), actor, command), 'not-ours');
      }
      go.open();
      t.equal(await run, subject.ends.result);
      t.equal((await again(mongo, command)).fence, 1);
      await endedWell(scene, command);
    },
  },
  {
    name: 'a renewal during a slow commit does not abort the commit',
    async show(scene) {
      const { t, mongo, subject, actor } = scene;
      const kernel = scene.kernel();
      const renewals = holdRenewals(t, kernel);
      let tries = 0;
      const slow = scriptActor(actor, async (_run, real) =>
        withEffect(mongo, await real(), async (session) => {
          tries += 1;
          await mongo.db.collection('steps').insertOne({ step: 'slow' }, { session });
          renewals.arrive();
          // Time for the renewal to reach the server, where it waits for this transaction.
          await delay(100);
        }),
      );
      const command = await subject.post();
      t.equal(await runCommand(kernel, slow, command), subject.ends.result);
      t.equal(tries, 1, 'the first commit succeeds');
      await endedWell(scene, command);
    },
  },
  {
    name: 'a renewal after a retry does not change the backoff',
    async show({ t, mongo, subject, actor, kernel: make }) {
      const command = await subject.post();
      const resting = { kind: 'retry', error: new Error('later'), afterMs: 50_000 } as const;
      let claimed = command;
      const puts = scriptActor(actor, async (run) => {
        claimed = run.command;
        return resting;
      });
      t.equal(await runCommand(make(), puts, command), 'retried');
      const settled = await again(mongo, command);
      t.equal(await renewLease(mongo, claimed, 10), false);
      t.strictSame(await again(mongo, command), settled);
    },
  },
  {
    name: 'a worker that lost its lease aborts the run and writes nothing',
    async show(scene) {
      const { t, mongo, subject, actor } = scene;
      const told = gate();
      const paused = scriptActor(actor, async (run, real) => {
        // A checkpoint of the actor may meet the lost lease first.
        const outcome = await real().catch((error: unknown) => error as Error);
        await until('the signal has aborted', () => run.signal.aborted);
        told.open();
        if (outcome instanceof Error) throw outcome;
        return outcome;
      });
      const command = await subject.post();
      const late = scene.kernel({ workerId: 'late', leaseMs: 300 });
      const run = runCommand(late, paused, command);
      await until('claimed', async () => (await again(mongo, command)).lockedUntil);
      await takeOver(scene, command);
      await told.opened;
      t.equal(await run, 'fenced');
      t.strictSame(late.announced, []);
      await endedWell(scene, command, 2);
    },
  },
  {
    name: 'a worker that has not noticed the loss of its lease writes neither effects nor end',
    async show(scene) {
      const { t, mongo, subject, actor } = scene;
      const [decided, go] = [gate(), gate()];
      const notes = mongo.db.collection<{ by: string; command: string }>('notes');
      const noting = (by: string) =>
        scriptActor(actor, async (run, real) => {
          const outcome = await real();
          if (by === 'late') {
            decided.open();
            await go.opened;
          }
          const note = { by, command: run.command._id };
          return withEffect(
            mongo,
            outcome.kind === 'snooze' ? { kind: 'done', result: null } : outcome,
            async (session) => {
              await notes.insertOne({ ...note }, { session });
            },
          );
        });
      const command = await subject.post();
      const late = scene.kernel({ workerId: 'late' });
      const run = runCommand(late, noting('late'), command);
      await decided.opened;
      await expire(mongo, command);
      t.equal(await runCommand(scene.kernel({ workerId: 'next' }), noting('next'), command), 'done');
      const settled = await again(mongo, command);
      go.open();
      t.equal(await run, 'fenced');
      t.strictSame(await again(mongo, command), settled, 'the late worker changes nothing');
      const written = await notes.find({ command: command._id }).toArray();
      t.strictSame(
        written.map((note) => note.by),
        ['next'],
        'only the holder of the newest fence wrote',
      );
      t.equal(await subject.effects(command), 1);
      t.strictSame(late.announced, []);
    },
  },
  {
    name: 'a checkpoint survives its worker, and a late checkpoint is refused together with its effects',
    async show(scene) {
      const { t, mongo, subject, actor } = scene;
      const progress = { afterId: '', updatedAttempts: 0, queuedNotifications: 0 };
      const notes = mongo.db.collection<{ step: string }>('steps');
      await notes.deleteMany({});
      const noteStep =
        (step: string) => async (session: NonNullable<Parameters<typeof notes.insertOne>[1]>['session']) => {
          await notes.insertOne({ step }, session === undefined ? {} : { session });
        };
      const [noted, go] = [gate(), gate()];
      const dies = scriptActor(actor, async (run, real) => {
        await run.checkpoint(progress as never, noteStep('first'));
        noted.open();
        await go.opened;
        await run.checkpoint({ late: true } as never, noteStep('late'));
        return real();
      });
      const seen: unknown[] = [];
      const resumes = scriptActor(actor, (run, real) => {
        seen.push(run.command.progress);
        return real();
      });
      const command = await subject.post();
      const dead = runCommand(scene.kernel({ workerId: 'dies' }), dies, command);
      await noted.opened;
      await expire(mongo, command);
      t.equal(await runCommand(scene.kernel({ workerId: 'resumes' }), resumes, command), subject.ends.result);
      t.strictSame(seen, [progress], 'the next claim continues from the checkpoint');
      go.open();
      t.equal(await dead, 'fenced');
      t.strictSame(
        (await notes.find().toArray()).map((note) => note.step),
        ['first'],
      );
      await endedWell(scene, command, 2);
    },
  },
  {
    name: 'the claim after the last attempt marks a command DEAD whose workers all vanished',
    async show({ t, mongo, subject, actor, kernel: make }) {
      const [poison, healthy] = [await subject.post({ maxAttempts: 2 }), await subject.post()];
      // A handler that never ends leaves a claim without a settlement, like a killed process. Real kills: crash-points.grades.e2e.test.ts.
      const vanishes = withStep(actor, () => new Promise<never>(() => undefined));
      for (const attempt of [1, 2]) {
        void runCommand(make({ workerId: `victim-${attempt}` }), vanishes, poison);
        await until('claimed', async () => (await again(mongo, poison)).fence === attempt);
        t.equal(await runCommand(make(), actor, poison), 'not-ours', 'the lease excludes other workers');
        await expire(mongo, poison);
      }
      const kernel = make({ workerId: 'gravedigger' });
      t.equal(await runCommand(kernel, actor, poison), 'dead');
      const dead = await again(mongo, poison);
      t.match(dead, { status: 'DEAD', attempts: 2, lockedUntil: null, lastError: { fingerprint: 'WorkerLost' } });
      t.type(dead.settledAt, Date);
      t.strictSame(kernel.announced, actor.yieldsTo === undefined ? [poison._id] : []);
      t.equal(await subject.effects(poison), 0);
      t.equal(await runCommand(kernel, actor, healthy), subject.ends.result);
    },
  },
  {
    name: 'a command that two workers did not end runs only alone, within the isolation slot',
    async show(scene) {
      const { t, mongo, subject, actor } = scene;
      const suspect = await makeSuspect(mongo, await subject.post());
      await expire(mongo, suspect);
      t.equal(await runCommand(scene.kernel(), actor, suspect), 'not-ours');
      t.equal(await subject.effects(suspect), 0);
      const alone = await isolated(scene, suspect);
      const renewals = holdRenewals(t, alone);
      const slow = scriptActor(actor, async (_run, real) => {
        // A checkpoint of the actor extends the lease, and time alone does not.
        const { lockedUntil } = await again(mongo, suspect);
        renewals.arrive();
        t.strictSame((await again(mongo, suspect)).lockedUntil, lockedUntil, 'the end of the slot is the time limit');
        return real();
      });
      t.equal(await runCommand(alone, slow, suspect), subject.ends.result);
      t.equal((await again(mongo, suspect)).lapses, undefined, 'an outcome clears it of suspicion');
      await endedWell(scene, suspect, 3);
    },
  },
  {
    name: 'a checkpoint of a run alone extends slot and lease, and is refused once the slot has ended',
    async show(scene) {
      const { t, mongo, subject, actor } = scene;
      const suspect = await makeSuspect(mongo, await subject.post());
      const slots = mongo.db.collection<IsolationSlot>(ISOLATION_SLOT);
      const steps = scriptActor(actor, async (run) => {
        const noteStep = async (session: ClientSession) => {
          await mongo.db.collection('steps').insertOne({ step: 'alone' }, { session });
        };
        // Half of the time of the slot has passed.
        const soon = new Date(Number((await again(mongo, suspect)).lockedUntil) - 30 * SECOND);
        await slots.updateOne({}, { $set: { until: soon } });
        await run.checkpoint(null as never, noteStep);
        const { lockedUntil, nextRunAt } = await again(mongo, suspect);
        t.ok(Number(lockedUntil) > Number(soon));
        t.strictSame([(await slots.findOne())?.until, nextRunAt], [lockedUntil, lockedUntil]);
        await slots.updateOne({}, { $set: { until: new Date(0) } });
        await t.rejects(run.checkpoint(null as never, noteStep), { name: 'LeaseLost' });
        return { kind: 'snooze', afterMs: 0 };
      });
      t.equal(await runCommand(await isolated(scene, suspect), steps, suspect), 'snoozed');
    },
  },
];

t.test('only one worker at a time runs a command, and a suspect runs alone', (t) => kernelSuite(t, FEATURES));

/** Replaces the timers that renew leases: each `arrive` renews the held leases of this kernel once. */
function holdRenewals(t: Scene['t'], { leaseMs }: { leaseMs: number }): { arrive(): void } {
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  return { arrive: () => mock.timers.tick(leaseMs / 3) };
}

/** Expires the lease and runs the command in another worker. */
async function takeOver(scene: Scene, command: Parameters<typeof again>[1]): Promise<void> {
  const { t, mongo, subject, actor, kernel } = scene;
  // Repeat both steps: the late worker's renewal may come between them.
  await until('taken over', async () => {
    await expire(mongo, command);
    const result = await runCommand(kernel({ workerId: 'next' }), actor, command);
    return result === subject.ends.result;
  });
  t.not((await mailboxOf(mongo, command.queue).findOne({ _id: command._id }))?.workerId, 'late');
}

/** Takes the isolation slot for a suspect, and returns the kernel of the thread that has it. */
async function isolated({ mongo, kernel }: Scene, command: Command): Promise<TestKernel> {
  const [workerId, ms] = ['alone', 60 * SECOND];
  const until = await takeSlot(mongo, command, { workerId, ms });
  if (until === null) throw new Error('the isolation slot is taken');
  const extend = (held: Command) => extendSlot(mongo, held, { workerId, ms });
  return kernel({ workerId, leaseMs: ms, alone: { until, extend } });
}
