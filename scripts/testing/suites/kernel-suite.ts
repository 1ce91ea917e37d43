import type { Test } from 'tap';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import { ISOLATION_SLOT } from '#infra/mongo/mailbox/suspects.ts';
import { type KernelOverrides, testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { LEASE_FEATURES } from '#testing/suites/kernel-features/leases.ts';
import { OUTCOME_FEATURES } from '#testing/suites/kernel-features/outcomes.ts';
import { SLOT_FEATURES } from '#testing/suites/kernel-features/slots.ts';
import { SUSPECT_FEATURES } from '#testing/suites/kernel-features/suspects.ts';
import { actorSubject, makeActor } from './actor-subjects.ts';

/** All features of the kernel. */
const FEATURES = [...OUTCOME_FEATURES, ...LEASE_FEATURES, ...SUSPECT_FEATURES, ...SLOT_FEATURES];

/** Tests every feature of the kernel with one actor. */
export async function kernelSuite(t: Test, actor: string): Promise<void> {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  // A snoozed upkeep command must not be due again before its test has read it.
  const env = {
    ...neighbours.env,
    ...neighbours.webhookEnv,
    ...neighbours.ownersEnv,
    ...neighbours.auditEnv,
    UPKEEP_INTERVAL_MS: '3600000',
  };
  const deps = testWorkerDeps(mongo, env);
  const subject = actorSubject(actor, mongo, neighbours);
  for (const feature of FEATURES) {
    if (feature.applies?.(subject) === false) continue;
    await t.test(feature.name, async (t) => {
      // A poll claims every due command, so commands of an earlier feature are deleted.
      for (const name of [...MAILBOXES, ISOLATION_SLOT]) await mongo.db.collection(name).deleteMany({});
      const kernel = (overrides: KernelOverrides = {}) => testKernel(mongo, overrides);
      await feature.show({ t, mongo, subject, deps, kernel, actor: makeActor(subject.name, deps) });
    });
  }
}
