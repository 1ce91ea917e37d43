import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { generationHolds } from '#infra/mongo/classifier/collections.ts';
import { findJob } from '#infra/mongo/classifier/jobs.ts';
import { ownerKeysOf } from '#shared/classifier/generation.ts';
import { graded, postHandoff, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { finishedOnce, generationOf, postJob, postSettlement } from '#testing/stored/stored-model-work.ts';
import { type CrashScenario, crashSuite } from '#testing/suites/crash-suite.ts';

const CLASSIFICATION: CrashScenario = {
  name: 'classification',
  status: 'DONE',
  leastPoints: 25,
  post: (mongo) => postJob(mongo),
  async check(t, { mongo }, { subject }) {
    t.equal(await finishedOnce(mongo, subject), 1, 'every batch is stored and counted once');
    const job = await findJob(mongo, subject);
    t.match(job, { open: false, error: null, counts: { succeeded: 7, failed: 0, batchesDone: 2 } });
  },
};

const HANDOFF: CrashScenario = {
  name: 'handoff',
  status: 'DONE',
  leastPoints: 10,
  post: async (mongo) => postHandoff(mongo, await storeAttempt(mongo, graded())),
  async check(t, { mongo }, { subject }) {
    const attempt = await attempts(mongo).findOne({ _id: subject });
    const totals = { totalScore: 2.5, correctCount: 1, wrongCount: 1, pendingManualCount: 0 };
    t.match(attempt, { ...totals, eventSeq: 2, answers: { q1: { score: 1.5 } } });
    t.strictSame(
      attempt?.events.map(({ type }) => type),
      ['START', 'ESSAY_GRADE_HANDOFF'],
      'applied once',
    );
  },
};

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

t.test('a worker killed at any await of its run loses no answer of a model and charges none twice', (t) =>
  crashSuite(t, { classifier: [CLASSIFICATION], essayhandoff: [HANDOFF], settlement: [SETTLEMENT] }),
);
