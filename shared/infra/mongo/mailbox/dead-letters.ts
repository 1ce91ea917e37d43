import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { actAsOperator, type OperatorAct, type ReplayLine } from '#infra/mongo/operator-audit.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { MAILBOXES } from './commands.ts';

/** Dead commands of one kind that died of one cause. */
export interface DeadGroup {
  queue: Queue;
  fingerprint: string;
  count: number;
  firstAt: Date;
  lastAt: Date;
  /** Id of one command of the group. */
  example: string;
}

/** Returns the dead letters of every mailbox, grouped by queue and cause, largest group first. */
export async function deadGroups(mongo: Mongo): Promise<DeadGroup[]> {
  const perMailbox = await Promise.all(
    MAILBOXES.map((name) =>
      mongo.db
        .collection<Command>(name)
        .aggregate<DeadGroup>(
          [
            { $match: { status: 'DEAD' } },
            {
              $group: {
                _id: { queue: '$queue', fingerprint: '$lastError.fingerprint' },
                count: { $sum: 1 },
                firstAt: { $min: '$settledAt' },
                lastAt: { $max: '$settledAt' },
                example: { $first: '$_id' },
              },
            },
            {
              $project: {
                _id: 0,
                queue: '$_id.queue',
                fingerprint: '$_id.fingerprint',
                count: 1,
                firstAt: 1,
                lastAt: 1,
                example: 1,
              },
            },
          ],
          { hint: 'dead', maxTimeMS: QUERY_LIMIT_MS },
        )
        .toArray(),
    ),
  );
  return perMailbox.flat().sort((a, b) => b.count - a.count);
}

/** Returns the newest dead commands that match, at most `limit`. */
export async function deadCommands(
  mongo: Mongo,
  wanted: { queue?: string; fingerprint?: string; limit: number },
): Promise<Command[]> {
  const rows = await Promise.all(
    MAILBOXES.map((name) =>
      mongo.db
        .collection<Command>(name)
        .find(
          {
            status: 'DEAD',
            ...(wanted.queue === undefined ? {} : { queue: wanted.queue as Queue }),
            ...(wanted.fingerprint === undefined ? {} : { 'lastError.fingerprint': wanted.fingerprint }),
          },
          { hint: 'dead', sort: { settledAt: -1 }, limit: wanted.limit, maxTimeMS: QUERY_LIMIT_MS },
        )
        .toArray(),
    ),
  );
  return rows
    .flat()
    .sort((a, b) => (b.settledAt?.getTime() ?? 0) - (a.settledAt?.getTime() ?? 0))
    .slice(0, wanted.limit) as Command[];
}

/** Returns the command with this id from any mailbox, or null. */
export async function findCommand(mongo: Mongo, id: string): Promise<Command | null> {
  for (const name of MAILBOXES) {
    const found = await mongo.db.collection<Command>(name).findOne({ _id: id });
    if (found !== null) return found as Command;
  }
  return null;
}

/**
 * Replays a dead command once per death: it becomes due with its full number of attempts, and the audit gets a line, in one
 * transaction.
 *
 * Returns false and changes nothing if this death was replayed already. That also holds if the command has died again meanwhile,
 * because no operator has examined the new death yet. `chargeSuperseded` is the operator's consent for a settlement
 * (`SettlementBody`).
 */
export async function replayDead(
  mongo: Mongo,
  command: Command,
  by: OperatorAct,
  { chargeSuperseded = false }: { chargeSuperseded?: boolean } = {},
): Promise<boolean> {
  const mailbox = MAILBOXES.map((name) => mongo.db.collection<Command>(name));
  return actAsOperator(mongo, by, async (session) => {
    for (const collection of mailbox) {
      const revived = await collection.updateOne(
        { _id: command._id, key: command.key, status: 'DEAD', replays: command.replays },
        [
          {
            $set: {
              status: 'PENDING',
              attempts: 0,
              nextRunAt: '$$NOW',
              lockedUntil: null,
              workerId: null,
              session: null,
              settledAt: null,
              replays: { $add: ['$replays', 1] },
              ...(chargeSuperseded ? { 'body.chargeSuperseded': true } : {}),
            },
          },
        ],
        { session },
      );
      if (revived.matchedCount !== 1) continue;
      const { queue, subject, lastError } = command;
      const line: ReplayLine = {
        action: 'dead.replay',
        commandId: command._id,
        queue,
        subject,
        lastError,
        ...(chargeSuperseded ? { chargeSuperseded } : {}),
      };
      return { result: true, line };
    }
    return { result: false, line: null };
  });
}
