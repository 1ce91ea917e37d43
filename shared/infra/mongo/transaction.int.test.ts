import { type CommandStartedEvent, type Document, MongoNetworkError, MongoServerError, Timestamp } from 'mongodb';
import t, { type Test } from 'tap';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { insertRow, putRow, updateRow } from './guarded-row.ts';
import { guardedUpdate, Stale, wasAccepted } from './guarded-update.ts';
import { inTransaction } from './transaction.ts';
import { watchPool } from './watch-pool.ts';

interface Counter {
  _id: string;
  count: number;
  stamp?: string;
}

const mongo = await openTestMongo(t);
const counters = mongo.db.collection<Counter>('counters');
const WATCHED = ['find', 'insert', 'update', 'commitTransaction', 'abortTransaction'];

/** Returns a collection with one row, and records the commands that reach the server from now on. */
async function watched(t: Test) {
  const mongo = await openTestMongo(t, { empty: true });
  const seen: { name: string; readConcern: Document }[] = [];
  Reflect.set(mongo.client, 'monitorCommands', true);
  const things = mongo.db.collection<{ _id: string; n?: number }>('things');
  await things.insertOne({ _id: 'taken' });
  mongo.client.on('commandStarted', ({ commandName, command }: CommandStartedEvent) => {
    if (WATCHED.includes(commandName)) seen.push({ name: commandName, readConcern: { ...command.readConcern } });
  });
  return { mongo, things, seen, names: () => seen.splice(0).map(({ name }) => name) };
}

t.test('a refused transaction waits for a majority, so that the next read finds the cause', async (t) => {
  const { mongo, things, seen, names } = await watched(t);
  let seenAt = new Timestamp({ t: 0, i: 0 });
  const insert = inTransaction(mongo, 60_000, async (session) => {
    await things.insertOne({ _id: 'taken' }, { session }).finally(() => {
      seenAt = session.operationTime ?? seenAt;
    });
  });
  await t.rejects(insert, { code: 11000 });
  const read = seen.at(-1);
  t.same(names(), ['insert', 'abortTransaction', 'find']);
  t.equal(read?.readConcern.level, 'majority');
  t.ok(
    seenAt.t > 0 && seenAt.lessThanOrEqual(read?.readConcern.afterClusterTime),
    'the read includes everything that the session has seen',
  );

  await t.rejects(
    inTransaction(mongo, 60_000, async (session) => {
      await things.updateOne({ _id: 'taken', n: 1 }, { $set: { n: 2 } }, { session });
      throw new Stale('thing');
    }),
    Stale,
  );
  t.same(names(), ['update', 'abortTransaction', 'find']);

  await things.findOne({ _id: 'taken' });
  t.same(seen.splice(0), [{ name: 'find', readConcern: { level: 'majority' } }], 'reads of other sessions do not wait');
});

t.test('throws the outage instead of the refusal if no majority answers in time', async (t) => {
  const { mongo, things } = await watched(t);
  const refused = (wait: Error) => {
    const db = tappedDb(mongo, (_, name) => (name === 'findOne' ? () => Promise.reject(wait) : undefined));
    return inTransaction({ ...mongo, db }, 60_000, (session) => things.insertOne({ _id: 'taken' }, { session }));
  };
  await t.rejects(refused(new MongoServerError({ code: 50, errmsg: 'operation exceeded time limit' })), { code: 50 });
  await t.rejects(refused(new Error('the wait itself is at fault')), { code: 11000 });
});

t.test('does not wait for a majority after a commit, without a read, or in an outage', async (t) => {
  const { mongo, things, names } = await watched(t);
  await inTransaction(mongo, 60_000, async (session) => void (await things.findOne({ _id: 'taken' }, { session })));
  t.same(names(), ['find', 'commitTransaction']);
  await t.rejects(inTransaction(mongo, 60_000, () => Promise.reject(new Stale('thing'))));
  t.same(names(), []);
  await t.rejects(
    inTransaction(mongo, 60_000, async (session) => {
      await things.findOne({ _id: 'taken' }, { session });
      throw new MongoNetworkError('the connection broke');
    }),
    MongoNetworkError,
  );
  t.same(names(), ['find', 'abortTransaction']);
});

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
