import type { ClientSession } from 'mongodb';
import { extendSlot, ISOLATION_SLOT, type IsolationSlot, takeSlot } from '#infra/mongo/mailbox/suspects.ts';
import type { Command } from '#shared/kernel/command.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { scriptActor } from '#testing/actors/scripted-actor.ts';
import type { TestKernel } from '#testing/actors/test-kernel.ts';
import { makeSuspect } from '#testing/stored/stored-suspects.ts';
import { runCommand } from '#workers/run-command.ts';
import { again, endedWell, expire, type Feature, type Scene } from './feature.ts';
import { holdRenewals } from './leases.ts';

/** Features of suspects: commands that two workers did not end. */
export const SUSPECT_FEATURES: readonly Feature[] = [
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

/** Takes the isolation slot for a suspect, and returns the kernel of the thread that has it. */
async function isolated({ mongo, kernel }: Scene, command: Command): Promise<TestKernel> {
  const [workerId, ms] = ['alone', 60 * SECOND];
  const until = await takeSlot(mongo, command, { workerId, ms });
  if (until === null) throw new Error('the isolation slot is taken');
  const extend = (held: Command) => extendSlot(mongo, held, { workerId, ms });
  return kernel({ workerId, leaseMs: ms, alone: { until, extend } });
}
