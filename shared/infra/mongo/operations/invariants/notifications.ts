import type { Mongo } from '#infra/mongo/connect.ts';
import { COMMANDS, DELIVERIES } from '#infra/mongo/mailbox/commands.ts';
import { fanOuts, type NotificationRow, notifications } from '#infra/mongo/notification/collections.ts';
import type { Command } from '#shared/kernel/command.ts';
import { finishFanOutOrder } from '#shared/notification/commands.ts';
import { BOUND, findingOf, type Invariant, inParts, liveByKey, SAMPLE } from './invariant.ts';

/** Promises about notifications and their deliveries. */
export const NOTIFICATION_INVARIANTS: readonly Invariant[] = [
  {
    name: 'a published fan-out has a command that finishes it',
    remedy: 'restore the command from a backup: until then its rows are visible, but not delivered over channels',
    async find(mongo) {
      const rows = await fanOuts(mongo)
        .find(
          { state: 'PUBLISHED' },
          { ...BOUND, hint: 'by_state', projection: { _id: 1 as const }, limit: SAMPLE + 1 },
        )
        .toArray();
      const keyOf = (id: string) => finishFanOutOrder(id).key;
      const commands = await liveByKey(
        mongo,
        COMMANDS,
        rows.map(({ _id }) => keyOf(_id)),
      );
      // The commit that ends the command deletes the fan-out.
      return findingOf(rows, ({ _id }) => ['DONE', undefined].includes(commands.get(keyOf(_id))?.status));
    },
  },
  {
    name: 'the notifications of one event are delivered over the same channels',
    remedy: 'notify the users of the examples by hand, and report it',
    async find(mongo) {
      const rows = await notifications(mongo)
        .find<Row>(
          { place: 'INBOX' },
          {
            ...BOUND,
            hint: 'newest',
            projection: { fanOutId: 1 },
            sort: { createdAt: -1, _id: -1 },
            limit: SAMPLE + 1,
          },
        )
        .toArray();
      const queuesOf = await deliveriesOf(mongo, rows);
      const wanted = new Map<string, Set<string>>();
      for (const { _id, fanOutId } of rows) {
        if (fanOutId === null) continue;
        const queues = wanted.get(fanOutId) ?? new Set();
        for (const queue of queuesOf.get(_id) ?? []) queues.add(queue);
        wanted.set(fanOutId, queues);
      }
      return findingOf(rows, ({ _id, fanOutId }) => {
        const expected = fanOutId === null ? 0 : (wanted.get(fanOutId)?.size ?? 0);
        return (queuesOf.get(_id)?.length ?? 0) < expected;
      });
    },
  },
];

type Row = Pick<NotificationRow, '_id' | 'fanOutId'>;

/** Returns the delivery queues in which each notification has a job. */
async function deliveriesOf(mongo: Mongo, rows: readonly Row[]): Promise<Map<string, string[]>> {
  const jobs = await inParts(rows, (part) =>
    mongo.db
      .collection<Command>(DELIVERIES)
      .find<Pick<Command, '_id' | 'subject' | 'queue'>>(
        { subject: { $in: part.map(({ _id }) => _id) } },
        { ...BOUND, projection: { subject: 1, queue: 1 } },
      )
      .toArray(),
  );
  const queuesOf = new Map<string, string[]>();
  for (const { subject, queue } of jobs) queuesOf.set(subject, [...(queuesOf.get(subject) ?? []), queue]);
  return queuesOf;
}
