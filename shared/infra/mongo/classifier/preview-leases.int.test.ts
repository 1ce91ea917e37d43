import t from 'tap';
import { MINUTE } from '#shared/kernel/time.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { previewLeases } from './collections.ts';
import { leasePreview, releasePreview, renewPreview } from './preview-leases.ts';

t.test('requests at the same time exceed no limit, and each release frees one place', async (t) => {
  const mongo = await openTestMongo(t);
  const lease = (leaseId: string, actorId = 'an') =>
    leasePreview(mongo, { actorId, leaseId }, { limit: 4, leaseMs: MINUTE, now: Date.now() });
  const results = await Promise.all(Array.from({ length: 12 }, (_, n) => lease(`preview-${n}`)));
  t.equal(results.filter(({ kind }) => kind === 'leased').length, 4);
  t.match(await lease('other', 'binh'), { kind: 'leased' }, 'another actor is free');

  const held = (await previewLeases(mongo).findOne({ _id: 'an' }))?.leases.map(({ id }) => id) ?? [];
  await releasePreview(mongo, { actorId: 'an', leaseId: held[2] ?? '' });
  t.match(await lease('next'), { kind: 'leased' });
  t.match(await lease('one more'), { kind: 'full' });
  const now = (await previewLeases(mongo).findOne({ _id: 'an' }))?.leases.map(({ id }) => id);
  t.strictSame(now, [held[0], held[1], held[3], 'next']);
});

t.test('the lease of a killed front door ends by itself, a renewed one lasts', async (t) => {
  const mongo = await openTestMongo(t);
  const lease = (leaseId: string) =>
    leasePreview(mongo, { actorId: 'an', leaseId }, { limit: 2, leaseMs: MINUTE, now: Date.now() });
  for (const id of ['killed', 'long']) await lease(id);
  t.match(await lease('third'), { kind: 'full' });
  await previewLeases(mongo).updateOne(
    { _id: 'an' },
    { $set: { 'leases.0.until': new Date(0), 'leases.1.until': new Date(Date.now() + 1_000) } },
  );
  await renewPreview(mongo, { actorId: 'an', leaseId: 'long' }, MINUTE);
  const { leases = [] } = (await previewLeases(mongo).findOne({ _id: 'an' })) ?? {};
  t.ok((leases[1]?.until.getTime() ?? 0) > Date.now() + MINUTE / 2, 'renewed');
  t.match(await lease('third'), { kind: 'leased' });
  t.match(await lease('fourth'), { kind: 'full' });
});
