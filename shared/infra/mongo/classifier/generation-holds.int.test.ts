import t, { type Test } from 'tap';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { HOUR, SECOND } from '#shared/kernel/time.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { generationHolds } from './collections.ts';
import { addHold, convertHold, readHoldsAhead, renewHold } from './generation-holds.ts';

const LEASE_MS = 30 * SECOND;
const first = { _id: 'preview-1', organizationId: 'org-1', fence: 3 };
const second = { _id: 'preview-2', organizationId: 'org-1', fence: 1 };
const estimate = { credits: 12, tokens: 4_000, leaseMs: LEASE_MS };
const cost = { credits: 6, tokens: 70 };

async function setUp(t: Test) {
  const mongo = await openTestMongo(t);
  await addHold(mongo, first, estimate);
  await addHold(mongo, second, estimate);
  return {
    mongo,
    keep: () => inTransaction(mongo, FRONT_DOOR_BUDGET_MS, (session) => convertHold(mongo, first, cost, session)),
    line: async () => (await generationHolds(mongo).findOne({ _id: 'org-1' }))?.holds ?? [],
    before: (now = Date.now()) => readHoldsAhead(mongo, second, now),
  };
}

t.test('a price that is owed stays held for a day, even if its maker still renews the hold', async (t) => {
  const { mongo, keep, line, before } = await setUp(t);
  await keep();
  t.match(await line(), [{ ...cost, previewId: 'preview-1', fence: 3 }, { previewId: 'preview-2' }], 'in its place');
  await renewHold(mongo, first, LEASE_MS);
  t.strictSame(await before(Date.now() + 23 * HOUR), { balance: cost.credits, usage: cost });
});

t.test('a hold that expired before its answer arrived is added again with the answer, once', async (t) => {
  const { mongo, keep, line } = await setUp(t);
  await generationHolds(mongo).updateOne({ _id: 'org-1' }, { $set: { 'holds.0.until': new Date(0) } });
  await addHold(mongo, { ...second, _id: 'preview-3' }, estimate);
  t.strictSame(
    (await line()).map(({ previewId }) => previewId),
    ['preview-2', 'preview-3'],
  );
  for (const time of ['first', 'second']) {
    await keep();
    t.match(await line(), [{}, {}, { ...cost, previewId: 'preview-1', fence: 3 }], time);
    t.equal((await line()).length, 3);
  }
});

t.test('renewing extends the hold of a generation that is being made', async (t) => {
  const { mongo, before } = await setUp(t);
  await renewHold(mongo, first, HOUR);
  t.match(await before(Date.now() + HOUR / 2), { balance: 12, usage: { credits: 12 } });
});
