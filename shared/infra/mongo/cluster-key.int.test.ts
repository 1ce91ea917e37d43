import t from 'tap';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { CLUSTER_KEYS, clusterHash, openLogHashes } from './cluster-key.ts';

t.test('processes that create the key at the same time hash alike, and another cluster does not', async (t) => {
  const [mongo, other] = [await openTestMongo(t, { empty: true }), await openTestMongo(t, { empty: true })];
  // Each copy of the handle is a process of its own.
  const processes = Array.from({ length: 8 }, () => ({ ...mongo }));
  const made = await Promise.all(processes.map(async (own) => (await clusterHash(own))('person', 'student-7')));
  t.equal(new Set(made).size, 1);
  t.equal(await mongo.db.collection(CLUSTER_KEYS).countDocuments({}), 1);
  t.equal((await clusterHash({ ...mongo }))('person', 'student-7'), made[0], 'a later process');

  const hash = await clusterHash(other);
  t.not(hash('person', 'student-7'), made[0]);
  t.not(hash('person', 'student-7'), hash('actor', 'student-7'), 'the log and the audit have different hashes');
});

t.test('the key is read again after a failure', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  let isDown = true;
  const collection: typeof mongo.db.collection = (...args) => {
    if (isDown) throw new Error('MongoDB is down');
    return mongo.db.collection(...args);
  };
  const flaky = { ...mongo, db: { ...mongo.db, collection } as typeof mongo.db };
  await t.rejects(clusterHash(flaky), /is down/);
  isDown = false;
  t.match((await clusterHash(flaky))('actor', 'student-7'), /^[\w-]{16}$/);
});

t.test('the log names no caller before the key is read, and afterwards as the tool does', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const hashes = openLogHashes(mongo);
  t.equal(hashes.of('actor', 'student-7'), undefined);
  await hashes.read();
  const hash = await clusterHash(mongo);
  for (let n = 0; n < 2; n += 1) t.equal(hashes.of('actor', 'student-7'), hash('actor', 'student-7'));
});
