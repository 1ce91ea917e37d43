import t from 'tap';
import { generations } from '#infra/mongo/classifier/collections.ts';
import { findGenerationById } from '#infra/mongo/classifier/generations.ts';
import { inProcessSettlement } from '#testing/actors/in-process-settlement.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { postSettlement } from '#testing/stored/stored-generations.ts';
import { lateShard } from '#testing/stores/late-shard.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { settleThroughWorker } from './settlement.ts';

t.test('a door returns the settled answer although the shard of the generation shows it unpaid', async (t) => {
  const mongo = await openTestMongo(t);
  const owners = await openFakeOwners(t);
  const { subject } = await postSettlement(mongo, { organizationId: 'org-1' });
  const row = await findGenerationById(mongo, subject);
  const unpaid = () => row;
  const late = lateShard(mongo, { [generations(mongo).collectionName]: unpaid });
  const { door, results } = inProcessSettlement(mongo, owners.env);
  const { signal } = new AbortController();
  const settled = await settleThroughWorker({ mongo: late.mongo }, door, row as never, signal);
  t.match(settled, { _id: subject, state: 'SETTLED' });
  t.strictSame(results, ['done']);
});
