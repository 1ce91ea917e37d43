import type { Test } from 'tap';
import { mailboxOf, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Command } from '#shared/kernel/command.ts';
import type { TestKernel, TestWorkerDeps } from '#testing/actors/test-kernel.ts';
import type { TestMongo } from '#testing/stores/open-test-mongo.ts';
import type { ActorSubject } from '#testing/suites/actor-subjects.ts';
import type { Actor } from '#workers/actor.ts';

/** What a feature of the kernel is shown with: one actor, and a mailbox that is empty at the start. */
export interface Scene {
  t: Test;
  mongo: TestMongo;
  subject: ActorSubject;
  actor: Actor;
  deps: TestWorkerDeps;
  kernel(overrides?: { workerId?: string; leaseMs?: number }): TestKernel;
}

/** One promise of the kernel, kept with every actor. */
export interface Feature {
  name: string;
  /** Absent: it holds for every actor. */
  applies?: (subject: ActorSubject) => boolean;
  show(scene: Scene): Promise<void>;
}

/** The command as it stands. */
export async function again(mongo: TestMongo, command: Command): Promise<Command> {
  const found = await readCommand(mongo, command.queue, command._id);
  if (found === null) throw new Error(`command ${command._id} is gone`);
  return found;
}

/** What the passing of time does: the lease (or the rest) of the command is over. */
export async function expire(mongo: TestMongo, command: Command): Promise<void> {
  const past = new Date(Date.now() - 60_000);
  await mailboxOf(mongo, command.queue).updateOne(
    { _id: command._id },
    { $set: { nextRunAt: past, ...((await again(mongo, command)).lockedUntil === null ? {} : { lockedUntil: past }) } },
  );
}

/** The command ended well, and its change was made once. */
export async function endedWell(scene: Scene, command: Command, attempts = 1): Promise<void> {
  const { t, mongo, subject } = scene;
  const now = await again(mongo, command);
  const spent = subject.ends.ending === 'snoozed' ? attempts - 1 : attempts;
  t.match(now, { status: subject.ends.status, attempts: spent, lockedUntil: null }, 'the command ended well');
  t.equal(await subject.effects(command), 1, 'its change was made once');
}
