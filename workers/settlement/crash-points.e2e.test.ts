import t from 'tap';
import { generationHolds } from '#infra/mongo/classifier/collections.ts';
import { ownerKeysOf } from '#shared/classifier/generation.ts';
import { generationOf, postSettlement } from '#testing/stored/stored-model-work.ts';
import { type CrashScenario, crashSuite } from '#testing/suites/crash-suite.ts';

const SETTLEMENT: CrashScenario = {
  name: 'settlement',
  status: 'DONE',
  leastPoints: 20,
  post: (mongo) => postSettlement(mongo),
  async check(t, { mongo, neighbours: { ledger } }, { subject }) {
    const row = await generationOf(mongo, { subject });
    t.match(row, { state: 'SETTLED', usageConsumed: true });
    const keys = ownerKeysOf(row._id);
    // A worker that was killed after an owner's answer and before its own write calls again, under the same key.
    for (const entry of [ledger.consumed.get(keys.usage), ledger.debits.get(keys.debit)]) {
      t.ok(entry?.times === 1 || entry?.times === 2, `${entry?.times} calls under one key`);
    }
    const own = [...ledger.debits.values()].filter(({ organizationId }) => organizationId === row.organizationId);
    t.match(own, [{ amount: row.charge?.credits }], 'one debit');
    const held = await generationHolds(mongo).findOne({ _id: row.organizationId });
    t.strictSame(held?.holds ?? [], [], 'the hold is removed');
  },
};

t.test('a worker killed at any await of its run loses nothing and doubles nothing', (t) =>
  crashSuite(t, 'settlement', [SETTLEMENT]),
);
