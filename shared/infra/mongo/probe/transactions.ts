import { type ClientSession, MongoErrorLabel } from 'mongodb';
import { isDuplicateKey, isWriteConflict } from '#infra/mongo/faults.ts';
import { endHolderSession, sessionIdOf } from '#infra/mongo/mailbox/claim.ts';
import { TRANSACTION } from '#infra/mongo/transaction.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { type Behaviour, inWords, refusalOf, type Trial } from './scratch.ts';

/** Transactions, which store a change together with its consequences. */
export const TRANSACTIONS: readonly Behaviour[] = [
  {
    name: 'atomic transactions',
    breaks: 'A submit could be stored without its grading command, and a grade without its notices.',
    async fault(trial) {
      const { keys, rows, newId } = trial;
      const [kept, lost] = [newId(), newId()];
      const committed = beginTransaction(trial);
      await insertBoth(trial, kept, committed);
      await committed.commitTransaction();
      const aborted = beginTransaction(trial);
      await insertBoth(trial, lost, aborted);
      await aborted.abortTransaction();
      const ids = { _id: { $in: [kept, lost] } };
      const stored = [...(await keys.find(ids).toArray()), ...(await rows.find(ids).toArray())].map(({ _id }) => _id);
      if (stored.includes(lost)) return 'what an aborted transaction wrote is stored';
      if (stored.length !== 2) return 'a committed transaction over two collections is stored in part';
      const refusal = await refusalOf(keys.insertOne({ _id: newId(), key: lost, live: true, aliases: [newId()] }));
      return refusal === undefined
        ? undefined
        : `inserting a key that an aborted transaction had inserted ${inWords(refusal)}`;
    },
  },
  {
    name: 'isolated transactions',
    breaks:
      'Readers would see a submit half done, and a long answer would be saved on a mix of two states of the attempt.',
    async fault(trial) {
      const { rows, newId } = trial;
      const [written, read, late] = [newId(), newId(), newId()];
      await rows.insertOne({ _id: read, n: 0 });
      const writer = beginTransaction(trial);
      await rows.insertOne({ _id: written }, { session: writer });
      if ((await rows.findOne({ _id: written })) !== null)
        return 'a row is visible before its transaction is committed';
      if ((await rows.findOne({ _id: written }, { session: writer })) === null)
        return 'a transaction does not see its own write';
      await writer.commitTransaction();
      if ((await rows.findOne({ _id: written })) === null)
        return 'a row is invisible after its transaction was committed';
      const reader = beginTransaction(trial);
      await rows.findOne({ _id: read }, { session: reader });
      await rows.updateOne({ _id: read }, { $set: { n: 1 } });
      await rows.insertOne({ _id: late });
      const again = await rows.find({ _id: { $in: [read, late] } }, { session: reader }).toArray();
      await reader.abortTransaction();
      return again.length === 1 && again[0]?.n === 0
        ? undefined
        : 'a transaction reads what was written after its first read';
    },
  },
  {
    name: 'write conflicts',
    breaks: 'One of two concurrent changes of an attempt would overwrite the other or fail with an internal error.',
    async fault(trial) {
      const { rows, newId } = trial;
      const [both, stale] = [newId(), newId()];
      await rows.insertMany([both, stale].map((_id) => ({ _id, by: 'none' })));
      const by = (name: string) => ({ $set: { by: name } });
      const [first, second] = [beginTransaction(trial), beginTransaction(trial)];
      await rows.findOne({ _id: both }, { session: second });
      await rows.updateOne({ _id: both }, by('first'), { session: first });
      const [conflict] = await Promise.all([
        refusalOf(rows.updateOne({ _id: both }, by('second'), { session: second })),
        first.commitTransaction(),
      ]);
      if (!isRetryable(conflict))
        return `a write to a row that another open transaction has written ${inWords(conflict)}`;
      const reader = beginTransaction(trial);
      await rows.findOne({ _id: stale }, { session: reader });
      await rows.updateOne({ _id: stale }, by('other'));
      const outdated = await refusalOf(rows.updateOne({ _id: stale }, by('reader'), { session: reader }));
      if (!isRetryable(outdated))
        return `a write to a row that has changed since the transaction read it ${inWords(outdated)}`;
      const stored = await rows.find({ _id: { $in: [both, stale] } }).toArray();
      const winners = stored.map((row) => row.by).sort();
      return winners.join() === 'first,other' ? undefined : 'a write that was refused as a conflict is stored';
    },
  },
  {
    name: 'duplicate keys in transactions',
    breaks:
      'A repeated request would be retried until its time limit and get 503, instead of the reply of the first one.',
    async fault(trial) {
      const { keys, rows, newId } = trial;
      const [taken, beside] = [newId(), newId()];
      await keys.insertOne({ _id: taken, key: taken, live: true, aliases: [taken] });
      const session = beginTransaction(trial);
      await rows.insertOne({ _id: beside }, { session });
      const row = { _id: newId(), key: taken, live: true, aliases: [newId()] };
      const refusal = await refusalOf(keys.insertOne(row, { session }));
      if (!isDuplicateKey(refusal)) return `inserting a taken key in a transaction ${inWords(refusal)}`;
      if (refusal?.hasErrorLabel(MongoErrorLabel.TransientTransactionError))
        return 'a duplicate key in a transaction is called transient';
      await session.abortTransaction();
      return (await rows.findOne({ _id: beside })) === null ? undefined : 'what the transaction wrote before is stored';
    },
  },
  {
    name: 'repeated commits',
    breaks: 'A submit whose reply was lost would be answered as failed although it is stored.',
    async fault(trial) {
      const { rows, newId } = trial;
      const id = newId();
      await rows.insertOne({ _id: id, n: 0 });
      const session = beginTransaction(trial);
      await rows.updateOne({ _id: id }, { $inc: { n: 1 } }, { session });
      await session.commitTransaction();
      const refusal = await refusalOf(session.commitTransaction());
      if (refusal !== undefined) return `a repeated commit ${inWords(refusal)}`;
      const row = await rows.findOne({ _id: id });
      return row?.n === 1 ? undefined : 'a repeated commit is applied twice';
    },
  },
  {
    name: 'ended sessions',
    breaks:
      'Documents in the open transaction of a killed worker would stay locked, and its commands would wait as long.',
    async fault(trial) {
      const { mongo, rows, newId } = trial;
      const id = newId();
      await rows.insertOne({ _id: id, by: 'none' });
      const holder = beginTransaction(trial);
      await rows.updateOne({ _id: id }, { $set: { by: 'holder' } }, { session: holder });
      const unkillable = await refusalOf(endHolderSession(mongo, sessionIdOf(holder) ?? ''));
      if (unkillable !== undefined) return `killSessions ${inWords(unkillable)}`;
      const write = await refusalOf(
        rows.updateOne({ _id: id }, { $set: { by: 'other' } }, { maxTimeMS: FREED_WITHIN_MS }),
      );
      if (write !== undefined) return `after killSessions, a write to what the session had locked ${inWords(write)}`;
      const commit = await refusalOf(holder.commitTransaction());
      const row = await rows.findOne({ _id: id });
      return commit !== undefined && row?.by === 'other'
        ? undefined
        : 'a transaction is committed after killSessions has ended it';
    },
  },
];

/** Time limit of a write to a row whose holder was ended. */
const FREED_WITHIN_MS = 2 * SECOND;

function beginTransaction({ session }: Trial): ClientSession {
  const begun = session();
  begun.startTransaction(TRANSACTION);
  return begun;
}

async function insertBoth({ keys, rows }: Trial, id: string, session: ClientSession): Promise<void> {
  await keys.insertOne({ _id: id, key: id, live: true, aliases: [id] }, { session });
  await rows.insertOne({ _id: id }, { session });
}

/** Returns true if the refusal has both the code by which a save recognizes a write conflict and the label by which transactions repeat. */
function isRetryable(refusal: Awaited<ReturnType<typeof refusalOf>>): boolean {
  return isWriteConflict(refusal) && refusal?.hasErrorLabel(MongoErrorLabel.TransientTransactionError) === true;
}
