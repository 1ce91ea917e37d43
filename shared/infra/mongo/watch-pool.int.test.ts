import t from 'tap';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { watchPool } from './watch-pool.ts';

t.test('each command is timed, and a connection is in use only while its command runs', async (t) => {
  const mongo = await openTestMongo(t);
  const seconds: number[] = [];
  const state = watchPool(mongo, (value) => void seconds.push(value));
  const rows = mongo.db.collection<{ _id: string }>('rows');
  await rows.insertOne({ _id: 'a' });
  const sent = 5;
  const before = seconds.length;
  const reads = Promise.all(Array.from({ length: sent }, () => rows.findOne({ _id: 'a' })));
  await reads;
  t.equal(seconds.length - before, sent);
  t.ok(seconds.every((value) => value >= 0));
  const after = state();
  t.equal(after.inUse, 0);
  t.equal(after.waiting, 0);
});

t.test('a command that fails returns its connection', async (t) => {
  const mongo = await openTestMongo(t);
  let ended = 0;
  const state = watchPool(mongo, () => {
    ended += 1;
  });
  await t.rejects(mongo.db.command({ noSuchCommand: 1 }));
  t.ok(ended > 0);
  t.strictSame({ ...state(), available: 0 }, { inUse: 0, available: 0, waiting: 0 });
});
