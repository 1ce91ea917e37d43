import { type ClientSession, MongoErrorLabel } from 'mongodb';
import { isWriteConflict } from '#infra/mongo/faults.ts';
import { endHolderSessions, sessionIdOf } from '#infra/mongo/mailbox/claim.ts';
import { TRANSACTION } from '#infra/mongo/transaction.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { type Behaviour, inWords, refusalOf, type Trial } from './scratch.ts';

/** Transactions, which store a change together with its consequences, and what is read after a write. */
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
      const refusal = await refusalOf(keys.insertOne({ _id: newId(), key: lost, live: true }));
      return refusal === undefined
        ? undefined
        : `inserting a key that an aborted transaction had inserted ${inWords(refusal)}`;
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
    name: 'ended sessions',
    breaks:
      'Documents in the open transaction of a killed worker would stay locked, and its commands would wait as long.',
    async fault(trial) {
      const { mongo, rows, newId } = trial;
      const id = newId();
      await rows.insertOne({ _id: id, by: 'none' });
      const holder = beginTransaction(trial);
      await rows.updateOne({ _id: id }, { $set: { by: 'holder' } }, { session: holder });
      const unkillable = await refusalOf(endHolderSessions(mongo, [sessionIdOf(holder) ?? '']));
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
  {
    name: 'majority writes',
    breaks: 'An answer or a submit that was acknowledged could be lost with one server.',
    async fault({ rows, newId }) {
      const [id, unmet] = [newId(), newId()];
      await rows.insertOne({ _id: id });
      if ((await rows.findOne({ _id: id })) === null)
        return 'a majority read does not see a write that a majority has acknowledged';
      const refusal = await refusalOf(rows.insertOne({ _id: unmet }, { writeConcern: UNMET }));
      return refusal !== undefined
        ? undefined
        : `a write concern of ${UNMET.w} members is acknowledged: write concerns are ignored`;
    },
  },
  {
    name: 'reads after writes',
    breaks: 'One of two equal concurrent requests could get 500, because the row of the other is not visible yet.',
    async fault({ rows, newId, session }) {
      const [id, own] = [newId(), session()];
      await rows.insertOne({ _id: id }, { session: own });
      if (own.operationTime === undefined) return 'replies carry no `operationTime`';
      const read = rows.findOne({ _id: id }, { session: own, readConcern: { level: 'majority' }, maxTimeMS: SECOND });
      const refusal = await refusalOf(read);
      if (refusal !== undefined) return `a read with \`afterClusterTime\` ${inWords(refusal)}`;
      return (await read) === null ? 'a read with `afterClusterTime` does not see a write of that time' : undefined;
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
  await keys.insertOne({ _id: id, key: id, live: true }, { session });
  await rows.insertOne({ _id: id }, { session });
}

/** Returns true if the refusal has both the code by which a save recognizes a write conflict and the label by which transactions repeat. */
function isRetryable(refusal: Awaited<ReturnType<typeof refusalOf>>): boolean {
  return isWriteConflict(refusal) && refusal?.hasErrorLabel(MongoErrorLabel.TransientTransactionError) === true;
}

/** No replica set has this many members with data, so a server that obeys write concerns refuses it at once. */
const UNMET = { w: 50, wtimeoutMS: SECOND };
