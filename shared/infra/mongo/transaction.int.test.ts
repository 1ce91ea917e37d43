import { type CommandStartedEvent, type Document, MongoNetworkError, MongoServerError, Timestamp } from 'mongodb';
import t from 'tap';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { Stale } from './guarded-update.ts';
import { inTransaction } from './transaction.ts';

const WATCHED = ['find', 'insert', 'update', 'commitTransaction', 'abortTransaction'];

/** Returns a collection with one row, and records the commands that reach the server from now on. */
async function watched(t: Parameters<typeof openTestMongo>[0]) {
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
