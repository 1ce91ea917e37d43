import { isDeepStrictEqual } from 'node:util';
import { SECOND } from '#shared/kernel/time.ts';
import { type Behaviour, inWords, refusalOf } from './scratch.ts';

/** Reads, and their guarantees after an acknowledged write. */
export const READS: readonly Behaviour[] = [
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
  {
    name: 'snapshot reads',
    breaks: 'An inbox could show a notification twice, or leave it out, while a large fan-out is published.',
    async fault({ rows, newId }) {
      const ids = [newId(), newId(), newId()].sort();
      const [, second = '', third = ''] = ids;
      await rows.insertMany(ids.map((_id) => ({ _id, place: 'before' })));
      const snapshot = { readConcern: { level: 'snapshot' } } as const;
      const cursor = rows.find({ _id: { $in: ids } }, { ...snapshot, sort: { _id: 1 }, batchSize: 1 });
      const first = await cursor.next();
      await rows.deleteOne({ _id: second });
      await rows.updateOne({ _id: third }, { $set: { place: 'after' } });
      const places = [first, ...(await cursor.toArray())].map((row) => row?.place);
      if (places.join() !== 'before,before,before') return 'a snapshot read sees what was written after it began';
      const count = await rows.countDocuments({ _id: { $in: ids } }, snapshot);
      return count === 2 ? undefined : `a snapshot read counts ${count} of 2 rows`;
    },
  },
  {
    name: 'hinted reads',
    breaks: 'Inboxes, job lists, dead letters and metrics would answer with an internal error, or with the wrong rows.',
    async fault({ rows, newId }) {
      const queue = newId();
      const due = (minute: number, status = 'PENDING') => ({
        _id: newId(),
        queue,
        status,
        dueAt: new Date(minute * 60_000),
      });
      const [first, second, third] = [due(1), due(2), due(3)];
      await rows.insertMany([third, first, due(0, 'DONE'), second, due(9)]);
      const filter = { queue, status: 'PENDING', dueAt: { $lte: third.dueAt } };
      const page = await rows
        .find(filter, { hint: 'due', sort: { dueAt: 1 }, limit: 2, projection: { queue: 1 } })
        .toArray();
      if (
        !isDeepStrictEqual(
          page,
          [first, second].map(({ _id }) => ({ _id, queue })),
        )
      )
        return 'a read by a partial index returns other rows, or in another order';
      const groups = await rows
        .aggregate([{ $match: filter }, { $group: { _id: '$queue', count: { $sum: 1 }, last: { $max: '$dueAt' } } }], {
          hint: 'due',
        })
        .toArray();
      if (!isDeepStrictEqual(groups, [{ _id: queue, count: 3, last: third.dueAt }]))
        return 'an aggregation by a partial index counts wrongly';
      const count = await rows.countDocuments(filter, { hint: 'due', limit: 2 });
      return count === 2 ? undefined : `a count of at most 2 rows is ${count}`;
    },
  },
];

/** No replica set has this many members with data, so a server that obeys write concerns refuses it at once. */
const UNMET = { w: 50, wtimeoutMS: SECOND };
