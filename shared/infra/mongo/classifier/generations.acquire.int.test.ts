import t from 'tap';
import { HOUR } from '#shared/kernel/time.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { openGeneration } from './generation-epochs.ts';
import { acquireGeneration, findGeneration, releaseGeneration, renewGeneration } from './generations.ts';

const mongo = await openTestMongo(t);

t.test('only its holder renews a lease, and not after the release of the row', async (t) => {
  const [_id, now] = ['preview-1', Date.now()];
  const named = { _id, key: 'key-1' };
  const wanted = { ...named, epoch: 1, organizationId: 'org-1', actor: { id: 'an', role: 'TEACHER' } };
  const opened = await openGeneration(mongo, { ...wanted, now, leaseMs: -1 });
  const acquired = await acquireGeneration(mongo, named, { by: 'door', leaseMs: 60_000 });
  if (opened.kind !== 'held' || acquired.kind !== 'held') throw new Error('the row was not free');
  const [first, second] = [opened.held, acquired.held];
  const leaseUntil = async () => (await findGeneration(mongo, named))?.leaseUntil.getTime() ?? 0;

  const held = await leaseUntil();
  await renewGeneration(mongo, first, HOUR);
  t.equal(await leaseUntil(), held);
  await renewGeneration(mongo, second, HOUR);
  t.ok((await leaseUntil()) > held);
  await releaseGeneration(mongo, second, null);
  const free = await leaseUntil();
  await renewGeneration(mongo, second, HOUR);
  t.equal(await leaseUntil(), free);
});
