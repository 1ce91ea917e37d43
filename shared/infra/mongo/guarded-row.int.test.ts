import t from 'tap';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { insertRow, updateRow } from './guarded-row.ts';
import { guardedUpdate, wasAccepted } from './guarded-update.ts';

interface Counter {
  _id: string;
  count: number;
  stamp?: string;
}

const mongo = await openTestMongo(t);
const counters = mongo.db.collection<Counter>('counters');
const increment = (limit = 1_000) => guardedUpdate([{ $lt: ['$count', limit] }], { count: { $add: ['$count', 1] } });

t.test('of the first updates of a row at the same time each is applied once', async (t) => {
  const updates = Array.from({ length: 30 }, () => updateRow(counters, { _id: 'a', count: 0 }, increment()));
  const counts = (await Promise.all(updates)).map(({ count }) => count);
  t.same(
    counts.sort((one, other) => one - other),
    Array.from({ length: 30 }, (_, n) => n + 1),
  );
});

t.test('an update whose conditions fail returns the row unchanged, a new one too', async (t) => {
  const update = increment(0);
  const row = await updateRow(counters, { _id: 'b', count: 0 }, update);
  t.match(row, { _id: 'b', count: 0 });
  t.notOk(wasAccepted(update, row));
});

t.test('a row that is deleted between insert and update is inserted again, and not for ever', async (t) => {
  let deletions = 3;
  const vanishing = new Proxy(counters, {
    get(rows, name) {
      if (name === 'collectionName') return 'counters';
      if (name === 'insertOne') return rows.insertOne.bind(rows);
      return async (...given: Parameters<typeof rows.findOneAndUpdate>) => {
        if (deletions-- > 0) await rows.deleteOne({ _id: 'c' });
        return rows.findOneAndUpdate(...given);
      };
    },
  });
  t.match(await updateRow(vanishing, { _id: 'c', count: 0 }, increment()), { count: 1 });
  deletions = Number.POSITIVE_INFINITY;
  await t.rejects(updateRow(vanishing, { _id: 'c', count: 0 }, increment()), /a row of counters was deleted/);
});

t.test('an insert of an existing row changes nothing', async (t) => {
  t.equal(await insertRow(counters, { _id: 'd', count: 1 }), true);
  t.equal(await insertRow(counters, { _id: 'd', count: 2 }), false);
  t.match(await counters.findOne({ _id: 'd' }), { count: 1 });
});
