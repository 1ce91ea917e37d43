import t from 'tap';
import { MAILBOXES } from '../shared/infra/mongo/mailbox/mailbox.ts';
import { actorSubjects, makeActor } from '../shared/testing/actor-subjects.ts';
import { LEASE_FEATURES } from '../shared/testing/kernel-features/leases.ts';
import { OUTCOME_FEATURES } from '../shared/testing/kernel-features/outcomes.ts';
import { SLOT_FEATURES } from '../shared/testing/kernel-features/slots.ts';
import { openNeighbours } from '../shared/testing/neighbours.ts';
import { openTestMongo } from '../shared/testing/open-test-mongo.ts';
import { testKernel, testWorkerDeps } from '../shared/testing/test-kernel.ts';

/** Every promise of the kernel, with every actor that the product has. */
const FEATURES = [...OUTCOME_FEATURES, ...LEASE_FEATURES, ...SLOT_FEATURES];

t.test('the kernel with every actor', async (t) => {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  const deps = testWorkerDeps(mongo, neighbours.env);
  for (const subject of actorSubjects(mongo, neighbours)) {
    await t.test(subject.name, async (t) => {
      for (const feature of FEATURES) {
        if (feature.applies?.(subject) === false) continue;
        await t.test(feature.name, async (t) => {
          // A poll takes up whatever lies there, so nothing of an earlier feature may.
          for (const name of MAILBOXES) await mongo.db.collection(name).deleteMany({});
          const kernel = (overrides = {}) => testKernel(mongo, overrides);
          await feature.show({ t, mongo, subject, deps, kernel, actor: makeActor(subject.name, deps) });
        });
      }
    });
  }
});
