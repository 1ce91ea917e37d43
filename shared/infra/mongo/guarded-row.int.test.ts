import t from 'tap';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { insertRow, putRow, updateRow } from './guarded-row.ts';
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

/** Returns the collection as a caller sees it whose row others remove before each change and insert before each insertion. */
function contested(id: string, others: { removals: number; insertions: number }) {
  return new Proxy(counters, {
    get(rows, name) {
      if (name === 'collectionName') return 'counters';
      if (name === 'insertOne')
        return async (...given: Parameters<typeof rows.insertOne>) => {
          if (others.insertions-- > 0) await rows.insertOne({ _id: id, count: 100 });
          return rows.insertOne(...given);
        };
      const change = Reflect.get(rows, name).bind(rows);
      return async (...given: unknown[]) => {
        if (others.removals-- > 0) await rows.deleteOne({ _id: id });
        return change(...given);
      };
    },
  });
}

t.test('a row that is deleted between insert and update is inserted again, and not for ever', async (t) => {
  const empty = { _id: 'c', count: 0 };
  t.match(await updateRow(contested('c', { removals: 3, insertions: 0 }), empty, increment()), { count: 1 });
  const always = contested('c', { removals: Number.POSITIVE_INFINITY, insertions: 0 });
  await t.rejects(updateRow(always, empty, increment()), /a row of counters was deleted/);
});

t.test('a put row has its fields: inserted, changed, and when others insert and remove it meanwhile', async (t) => {
  const stored = () => counters.findOne({ _id: 'e' });
  await putRow(counters, { _id: 'e', count: 1, stamp: 'first' });
  t.strictSame(await stored(), { _id: 'e', count: 1, stamp: 'first' });
  await putRow(counters, { _id: 'e', count: 2 });
  t.strictSame(await stored(), { _id: 'e', count: 2, stamp: 'first' }, 'it sets the fields that it has');
  await putRow(contested('e', { removals: 3, insertions: 2 }), { _id: 'e', count: 3 });
  t.strictSame(await stored(), { _id: 'e', count: 3 }, 'inserted, because the last pass found no row');
  await putRow(contested('e', { removals: 1, insertions: 1 }), { _id: 'e', count: 4 });
  t.strictSame(await stored(), { _id: 'e', count: 4 }, 'changed, because another one had inserted it');
  const always = contested('e', { removals: Number.POSITIVE_INFINITY, insertions: Number.POSITIVE_INFINITY });
  await t.rejects(putRow(always, { _id: 'e', count: 5 }), /a row of counters was deleted/);
  await Promise.all(Array.from({ length: 8 }, (_, n) => putRow(counters, { _id: 'f', count: n })));
  t.equal(await counters.countDocuments({ _id: 'f' }), 1);
});

t.test('an insert of an existing row changes nothing', async (t) => {
  t.equal(await insertRow(counters, { _id: 'd', count: 1 }), true);
  t.equal(await insertRow(counters, { _id: 'd', count: 2 }), false);
  t.match(await counters.findOne({ _id: 'd' }), { count: 1 });
});
