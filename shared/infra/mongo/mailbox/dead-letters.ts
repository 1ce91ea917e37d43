import type { Collection, Document, Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { actAsOperator, type DeadLetterLine, type OperatorAct } from '#infra/mongo/operator-audit.ts';
import type { Command, DeadLetterMark, Queue } from '#shared/kernel/command.ts';
import { MAILBOX_OF, MAILBOXES } from './commands.ts';

/** Marks of the letters that are listed, replayed and dropped. Null also matches a letter without a mark. */
export const LISTED: readonly (DeadLetterMark | null)[] = [null, 'ACKNOWLEDGED'];

/** Chooses dead letters. Dropped ones are chosen only by `letter: 'DROPPED'`. */
export interface DeadLetterFilter {
  queue?: Queue;
  /** Fingerprint of the error. */
  cause?: string;
  subject?: string;
  /** They died at this time or later. */
  since?: Date;
  /** They died before this time. */
  until?: Date;
  letter?: DeadLetterMark;
}

/** Returns the stages that choose. MongoDB joins them; the first one alone decides on the index and the shards. */
function stagesOf({ queue, cause, subject, since, until, letter }: DeadLetterFilter): Document[] {
  const wanted: Filter<Command> = {
    ...(queue === undefined ? {} : { queue }),
    ...(cause === undefined ? {} : { 'lastError.fingerprint': cause }),
    ...(subject === undefined ? {} : { subject }),
    ...(since === undefined && until === undefined
      ? {}
      : { settledAt: { ...(since && { $gte: since }), ...(until && { $lt: until }) } }),
  };
  const isMarked = letter === undefined ? { $in: LISTED } : { $in: [letter] };
  return [{ $match: { status: 'DEAD', letter: isMarked } }, { $match: wanted }];
}

/** Dead commands of one kind that died of one cause. */
export interface DeadGroup {
  queue: Queue;
  fingerprint: string;
  count: number;
  /** How many of them an operator has acknowledged. */
  acknowledged: number;
  firstAt: Date;
  lastAt: Date;
  /** Id of one command of the group. */
  example: string;
}

/** Returns the dead letters of every mailbox, grouped by queue and cause, largest group first. */
export async function deadGroups(mongo: Mongo, wanted: DeadLetterFilter = {}): Promise<DeadGroup[]> {
  const perMailbox = await Promise.all(
    mailboxesOf(mongo).map((mailbox) =>
      mailbox
        .aggregate<DeadGroup>(
          [
            ...stagesOf(wanted),
            {
              $group: {
                _id: { queue: '$queue', fingerprint: '$lastError.fingerprint' },
                count: { $sum: 1 },
                acknowledged: { $sum: { $cond: [{ $eq: ['$letter', 'ACKNOWLEDGED'] }, 1, 0] } },
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
                acknowledged: 1,
                firstAt: 1,
                lastAt: 1,
                example: 1,
              },
            },
          ],
          { hint: 'dead_letters', maxTimeMS: QUERY_LIMIT_MS },
        )
        .toArray(),
    ),
  );
  return perMailbox.flat().sort((a, b) => b.count - a.count);
}

/** Returns the newest dead commands that match, at most `limit`. */
export async function deadCommands(mongo: Mongo, wanted: DeadLetterFilter & { limit: number }): Promise<Command[]> {
  const { limit } = wanted;
  const rows = await Promise.all(
    mailboxesOf(mongo).map((mailbox) =>
      mailbox
        .aggregate<Command>([...stagesOf(wanted), { $sort: { settledAt: -1 } }, { $limit: limit }], {
          hint: 'dead_letters',
          maxTimeMS: QUERY_LIMIT_MS,
        })
        .toArray(),
    ),
  );
  return rows
    .flat()
    .sort((a, b) => (b.settledAt?.getTime() ?? 0) - (a.settledAt?.getTime() ?? 0))
    .slice(0, limit);
}

function mailboxesOf(mongo: Mongo): Collection<Command>[] {
  return MAILBOXES.map((name) => mongo.db.collection<Command>(name));
}

/** Returns the command with this id from any mailbox, or null. */
export async function findCommand(mongo: Mongo, id: string): Promise<Command | null> {
  for (const mailbox of mailboxesOf(mongo)) {
    const found = await mailbox.findOne({ _id: id });
    if (found !== null) return found;
  }
  return null;
}

/**
 * Replays a dead command once per death: it becomes due with its full number of attempts, and the audit gets a line, in one
 * transaction.
 *
 * Returns false and changes nothing if this death was replayed already, or if the letter is dropped. That also holds if the command has
 * died again meanwhile, because no operator has examined the new death yet. `chargeSuperseded` is the operator's consent for a settlement
 * (`SettlementBody`).
 */
export async function replayDead(
  mongo: Mongo,
  command: Command,
  by: OperatorAct,
  { chargeSuperseded = false }: { chargeSuperseded?: boolean } = {},
): Promise<boolean> {
  const changes = {
    status: 'PENDING',
    attempts: 0,
    nextRunAt: '$$NOW',
    dueAt: '$$NOW',
    lockedUntil: null,
    workerId: null,
    session: null,
    settledAt: null,
    replays: { $add: ['$replays', 1] },
    ...(chargeSuperseded ? { 'body.chargeSuperseded': true } : {}),
  };
  const line = { ...lineOf('dead.replay', command), ...(chargeSuperseded ? { chargeSuperseded } : {}) };
  const pipeline: Document[] = [{ $set: changes }, { $unset: 'letter' }];
  return changeDead(mongo, command, { pipeline, marks: LISTED, by, line });
}

/**
 * Marks a dead letter and appends a line to the audit, in one transaction. Returns false and changes nothing if this death was replayed
 * already, or if the letter has this mark or is dropped.
 */
export async function markDead(
  mongo: Mongo,
  command: Command,
  letter: DeadLetterMark,
  by: OperatorAct,
): Promise<boolean> {
  const marks = letter === 'DROPPED' ? LISTED : [null];
  const line = lineOf(letter === 'DROPPED' ? 'dead.drop' : 'dead.ack', command);
  return changeDead(mongo, command, { pipeline: [{ $set: { letter } }], marks, by, line });
}

/** A change of a dead letter, with its line of the audit. */
interface DeadLetterChange {
  pipeline: Document[];
  /** The marks that it may have before. */
  marks: readonly (DeadLetterMark | null)[];
  by: OperatorAct;
  line: DeadLetterLine;
}

function lineOf(action: DeadLetterLine['action'], command: Command): DeadLetterLine {
  const { _id: commandId, queue, subject, lastError } = command;
  return { action, commandId, queue, subject, lastError };
}

/** Changes a command if it is still in the death in which it was read, and has one of these marks. */
function changeDead(
  mongo: Mongo,
  { _id, queue, key, status, settledAt, replays }: Command,
  { pipeline, marks, by, line }: DeadLetterChange,
): Promise<boolean> {
  // The operator has not seen a death that comes after the read.
  if (status !== 'DEAD') return Promise.resolve(false);
  return actAsOperator(mongo, by, async (session) => {
    const changed = await mongo.db
      .collection<Command>(MAILBOX_OF[queue])
      .updateOne(
        { _id, key, status: 'DEAD', settledAt, replays, letter: { $in: marks } } as Filter<Command>,
        pipeline,
        {
          session,
        },
      );
    const result = changed.matchedCount === 1;
    return { result, line: result ? line : null };
  });
}
