import { isDeepStrictEqual } from 'node:util';
import { type ClientSession, type Collection, MongoErrorLabel, type MongoServerError } from 'mongodb';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { TRANSACTION } from '#infra/mongo/transaction.ts';
import { type Behaviour, inWords, type KeyRow, refusalOf, SCRATCH_INDEXES, type Trial } from './scratch.ts';

/** Unique indexes. Every idempotency promise of the product depends on them. */
export const UNIQUE_KEYS: readonly Behaviour[] = [
  {
    name: 'duplicate keys',
    breaks: 'A student could start one exam twice, and an e-mail could belong to two accounts.',
    async fault({ keys, newId }) {
      const [first, second] = [newId(), newId()];
      await keys.insertOne(rowOf(first, first));
      const sameKey = await refusalOf(keys.insertOne(rowOf(second, first)));
      if (!isRefusedBy(sameKey, 'key')) return `inserting a taken key ${inWords(sameKey)}${withoutIndex(sameKey)}`;
      // Only the _id is taken, because a server names any one of the indexes that refuse a row.
      const sameId = await refusalOf(keys.insertOne({ ...rowOf(first, second), aliases: [second] }));
      if (!isRefusedBy(sameId, '_id')) return `inserting a taken _id ${inWords(sameId)}${withoutIndex(sameId)}`;
      return undefined;
    },
  },
  {
    name: 'duplicate keys by updates',
    breaks: 'A retried classification job could run beside an equal one, and a start key could name two attempts.',
    async fault({ keys, newId }) {
      const [holder, other] = [newId(), newId()];
      await keys.insertMany([rowOf(holder, holder), { ...rowOf(other, holder), live: false }]);
      const entering = await refusalOf(keys.updateOne({ _id: other }, [{ $set: { live: true } }]));
      if (!isDuplicateKey(entering))
        return `an update into a partial index where the key is taken ${inWords(entering)}`;
      const adding = await refusalOf(keys.updateOne({ _id: other }, { $addToSet: { aliases: holder } }));
      if (!isDuplicateKey(adding)) return `an update that adds a taken key to an array ${inWords(adding)}`;
      return undefined;
    },
  },
  {
    name: 'freed keys',
    breaks: 'A submitted attempt would block the next start, and a rejected command could never be posted again.',
    async fault({ keys, newId }) {
      for (const [how, free] of WAYS_TO_FREE) {
        const [holder, next] = [newId(), newId()];
        await keys.insertOne(rowOf(holder, holder));
        await free(keys, holder);
        const refusal = await refusalOf(keys.insertOne(rowOf(next, holder)));
        if (refusal !== undefined) return `the key stays taken after ${how}`;
      }
      return undefined;
    },
  },
  {
    name: 'partial unique indexes',
    breaks:
      'A student could have one attempt at an exam and no second one, and two accounts without a phone could not exist.',
    async fault({ keys, newId }) {
      const key = newId();
      for (const live of [false, false, true]) {
        const refusal = await refusalOf(keys.insertOne({ ...rowOf(newId(), key), live }));
        if (refusal !== undefined) return `a row outside the index's filter counts as a duplicate: ${refusal.message}`;
      }
      return undefined;
    },
  },
  {
    name: 'one winner per key',
    breaks: 'Two requests at once could both start an attempt, register an e-mail or retry a classification job.',
    async fault(trial) {
      const { keys, newId } = trial;
      const [key, ...ids] = [newId(), newId(), newId()];
      const insert: ClaimWrite = (id, session) => keys.insertOne(rowOf(id, key), { session });
      const inserts = await raceFault(trial, key, ids, insert);
      if (inserts !== undefined) return `of two transactions that insert one key, ${inserts}`;
      const [updatedKey, ...rows] = [newId(), newId(), newId()];
      await keys.insertMany(rows.map((id) => ({ ...rowOf(id, updatedKey), live: false })));
      const update: ClaimWrite = (id, session) => keys.updateOne({ _id: id }, { $set: { live: true } }, { session });
      const updates = await raceFault(trial, updatedKey, rows, update);
      return updates === undefined ? undefined : `of two transactions that update rows to one key, ${updates}`;
    },
  },
  {
    name: 'index definitions',
    breaks:
      'A process could not verify at its start that the unique indexes exist, and expired rows would stay for ever.',
    async fault({ keys, rows, refusedIndexes }) {
      for (const { collection: name, name: index, keys: fields, options } of SCRATCH_INDEXES) {
        const refusal = refusedIndexes.get(index);
        if (refusal !== undefined)
          return `creating an index with ${Object.keys(options).join(', ')} is answered with "${refusal}"`;
        const collection = { keys, rows }[name];
        const again = await refusalOf(collection.createIndex(fields, { ...options, name: index }));
        if (again !== undefined) return `creating an index that exists ${inWords(again)}`;
        const found = (await collection.indexes()).find((one) => one.name === index);
        const { key, unique, partialFilterExpression, expireAfterSeconds } = found ?? {};
        const isSame =
          isDeepStrictEqual(Object.entries(key ?? {}), Object.entries(fields)) &&
          (unique === true) === (options.unique === true) &&
          isDeepStrictEqual(partialFilterExpression, options.partialFilterExpression) &&
          expireAfterSeconds === options.expireAfterSeconds;
        if (!isSame)
          return `an index with ${Object.keys(options).join(', ')} is listed as ${JSON.stringify(found ?? null)}`;
      }
      return undefined;
    },
  },
];

function rowOf(id: string, key: string): KeyRow {
  return { _id: id, key, live: true, aliases: [id] };
}

/** Returns true if the refusal names the index over this field alone. The product chooses its reply by that name. */
function isRefusedBy(refusal: MongoServerError | undefined, field: string): boolean {
  return isDuplicateKey(refusal) && isDeepStrictEqual(Object.keys(refusal?.keyPattern ?? {}), [field]);
}

function withoutIndex(refusal: MongoServerError | undefined): string {
  return isDuplicateKey(refusal) ? ', and the reply does not name the index (keyPattern)' : '';
}

/** Writes that free the key of a row, each with its description. */
const WAYS_TO_FREE: readonly [string, (keys: Collection<KeyRow>, id: string) => Promise<unknown>][] = [
  [
    'an update sets another key in its row',
    (keys, id) => keys.updateOne({ _id: id }, { $set: { key: `${id} moved` } }),
  ],
  ['an update removes its row from a partial index', (keys, id) => keys.updateOne({ _id: id }, [{ $unset: 'live' }])],
  ['its row is deleted', (keys, id) => keys.deleteOne({ _id: id })],
];

/** Writes the contested key into the row of this id, in the session's transaction. */
type ClaimWrite = (id: string, session: ClientSession) => Promise<unknown>;

/**
 * Lets two transactions claim one key, both begun before either ends. Returns the fault, or undefined if exactly one wins.
 *
 * A server may refuse the second claim at once or let it wait for the end of the first. Both are fine: the product retries a transient
 * refusal, and answers a duplicate key from the winner's row.
 */
async function raceFault(
  { keys, session }: Trial,
  key: string,
  [first = '', second = '']: string[],
  claim: ClaimWrite,
): Promise<string | undefined> {
  const [winner, loser] = [session(), session()];
  winner.startTransaction(TRANSACTION);
  loser.startTransaction(TRANSACTION);
  await keys.findOne({ _id: second }, { session: loser });
  await claim(first, winner);
  const [refusedClaim] = await Promise.all([refusalOf(claim(second, loser)), winner.commitTransaction()]);
  const refusal = refusedClaim ?? (await refusalOf(loser.commitTransaction()));
  if (refusal === undefined) return 'both are committed';
  const isExpected = isDuplicateKey(refusal) || refusal.hasErrorLabel(MongoErrorLabel.TransientTransactionError);
  if (!isExpected) return `the second ${inWords(refusal)}`;
  const holders = await keys.countDocuments({ key, live: true });
  return holders === 1 ? undefined : `one is committed, and ${holders} rows have the key`;
}
