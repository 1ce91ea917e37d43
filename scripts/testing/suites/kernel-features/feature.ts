import type { Test } from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Command } from '#shared/kernel/command.ts';
import type { KernelOverrides, TestKernel, TestWorkerDeps } from '#testing/actors/test-kernel.ts';
import type { TestMongo } from '#testing/stores/open-test-mongo.ts';
import type { ActorSubject } from '#testing/suites/actor-subjects.ts';
import type { Actor } from '#workers/actor.ts';

/** Surroundings of one test of a kernel feature: an actor, and mailboxes that are empty at the start. */
export interface Scene {
  t: Test;
  mongo: TestMongo;
  subject: ActorSubject;
  actor: Actor;
  deps: TestWorkerDeps;
  kernel(overrides?: KernelOverrides): TestKernel;
}

/** One guarantee of the kernel, which holds for every actor. */
export interface Feature {
  /** Title of the test. */
  name: string;
  /** Returns whether the feature concerns this actor; absent if it concerns all. */
  applies?: (subject: ActorSubject) => boolean;
  show(scene: Scene): Promise<void>;
}

/** Reads the command again. @throws Error if it does not exist */
export async function again(mongo: Mongo, command: Command): Promise<Command> {
  const found = await readCommand(mongo, command);
  if (found === null) throw new Error(`command ${command._id} is gone`);
  return found;
}

/** Makes the command due now, as time would: ends its lease or its backoff. */
export async function expire(mongo: Mongo, command: Command): Promise<void> {
  const past = new Date(Date.now() - 60_000);
  await mailboxOf(mongo, command.queue).updateOne(
    { _id: command._id },
    { $set: { nextRunAt: past, ...((await again(mongo, command)).lockedUntil === null ? {} : { lockedUntil: past }) } },
  );
}

/** Checks that the command ended successfully after `attempts` claims and that its change was made once. */
export async function endedWell(scene: Scene, command: Command, attempts = 1): Promise<void> {
  const { t, mongo, subject } = scene;
  const now = await again(mongo, command);
  const spent = subject.ends.result === 'snoozed' ? attempts - 1 : attempts;
  t.match(now, { status: subject.ends.status, attempts: spent, lockedUntil: null }, 'the command succeeded');
  t.equal(await subject.effects(command), 1, 'the change was made once');
}
