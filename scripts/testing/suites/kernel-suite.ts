import type { Test } from 'tap';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import { ISOLATION_SLOT } from '#infra/mongo/mailbox/suspects.ts';
import type { Command } from '#shared/kernel/command.ts';
import {
  type KernelOverrides,
  type TestKernel,
  type TestWorkerDeps,
  testKernel,
  testWorkerDeps,
} from '#testing/actors/test-kernel.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { again } from '#testing/stored/stored-commands.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import type { Actor } from '#workers/actor.ts';
import { ACTORS } from '#workers/actors.ts';
import { type ActorSubject, actorSubject, makeActor } from './actor-subjects.ts';

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
  name: string;
  /** Returns whether the feature concerns this actor; absent if it concerns all. */
  applies?: (subject: ActorSubject) => boolean;
  show(scene: Scene): Promise<void>;
}

/** Checks that the command ended successfully after `attempts` claims and that its change was made once. */
export async function endedWell(scene: Scene, command: Command, attempts = 1): Promise<void> {
  const { t, mongo, subject } = scene;
  const now = await again(mongo, command);
  const spent = subject.ends.result === 'snoozed' ? attempts - 1 : attempts;
  t.match(now, { status: subject.ends.status, attempts: spent, lockedUntil: null }, 'the command succeeded');
  t.equal(await subject.effects(command), 1, 'the change was made once');
}

export async function kernelSuite(t: Test, features: readonly Feature[]): Promise<void> {
  for (const name of Object.keys(ACTORS)) await t.test(name, (t) => testFeatures(t, name, features));
}

async function testFeatures(t: Test, actor: string, features: readonly Feature[]): Promise<void> {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  // A snoozed upkeep command must not be due again before its test has read it.
  const env = { ...neighbours.allEnv, UPKEEP_INTERVAL_MS: '3600000' };
  const deps = testWorkerDeps(mongo, env);
  const subject = actorSubject(actor, mongo, neighbours);
  for (const feature of features) {
    if (feature.applies?.(subject) === false) continue;
    await t.test(feature.name, async (t) => {
      // A poll claims every due command, so commands of an earlier feature are deleted.
      for (const name of [...MAILBOXES, ISOLATION_SLOT]) await mongo.db.collection(name).deleteMany({});
      const kernel = (overrides: KernelOverrides = {}) => testKernel(mongo, overrides);
      await feature.show({ t, mongo, subject, deps, kernel, actor: makeActor(subject.name, deps) });
    });
  }
}
