import { isDeepStrictEqual } from 'node:util';
import { type Collection, MongoErrorLabel, type MongoServerError } from 'mongodb';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { TRANSACTION } from '#infra/mongo/transaction.ts';
import { type Behaviour, inWords, type KeyRow, refusalOf, SCRATCH_INDEXES } from './scratch.ts';

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
      const sameId = await refusalOf(keys.insertOne(rowOf(first, second)));
      if (!isRefusedBy(sameId, '_id')) return `inserting a taken _id ${inWords(sameId)}${withoutIndex(sameId)}`;
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
      const { keys, newId, session } = trial;
      const [key, first, second] = [newId(), newId(), newId()];
      const [winner, loser] = [session(), session()];
      winner.startTransaction(TRANSACTION);
      loser.startTransaction(TRANSACTION);
      await keys.findOne({ _id: second }, { session: loser });
      await keys.insertOne(rowOf(first, key), { session: winner });
      // A server may refuse the second claim at once or let it wait for the end of the first. The product retries a transient refusal.
      const claim = refusalOf(keys.insertOne(rowOf(second, key), { session: loser }));
      const [refused] = await Promise.all([claim, winner.commitTransaction()]);
      const refusal = refused ?? (await refusalOf(loser.commitTransaction()));
      if (refusal === undefined) return 'two transactions that insert one key are both committed';
      const isExpected = isDuplicateKey(refusal) || refusal.hasErrorLabel(MongoErrorLabel.TransientTransactionError);
      if (!isExpected) return `the second of two transactions that insert one key ${inWords(refusal)}`;
      const holders = await keys.countDocuments({ key, live: true });
      return holders === 1 ? undefined : `after two transactions that insert one key, ${holders} rows have it`;
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
  return { _id: id, key, live: true };
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
