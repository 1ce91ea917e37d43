import { isSuperseded } from '#infra/mongo/classifier/generation-epochs.ts';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { actorOf, DELIVERIES, MAILBOX_OF, QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { deadCommands, deadGroups, findCommand, replayDead } from '#infra/mongo/mailbox/dead-letters.ts';
import { queueDepths } from '#infra/mongo/mailbox/queue-depths.ts';
import type { Command } from '#shared/kernel/command.ts';
import { deliveryJobState } from '#shared/notification/delivery.ts';
import { actFor, type CliCommand, counted, type Flags, type Operator, reasonOf } from './operator.ts';
import { iso, LIMIT_WANTED, limitOf, print, refuse, table } from './output.ts';

/** The commands for mailboxes and workers. */
export const COMMANDS: Readonly<Record<string, CliCommand>> = {
  'dead list': listDead,
  'dead show': showDead,
  'dead replay': replay,
  workers: listWorkers,
  queues: listQueues,
};

async function listDead(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const noQueue = unknownQueue(flags);
  if (noQueue !== null) return refuse(operator, noQueue);
  const groups = (await deadGroups(operator.mongo)).filter(
    (group) => flags.queue === undefined || group.queue === flags.queue,
  );
  print(operator, flags, groups, () =>
    groups.length === 0
      ? 'no dead letters'
      : table(
          ['count', 'queue', 'cause', 'last', 'example'],
          groups.map((group) => [`${group.count}`, group.queue, group.fingerprint, iso(group.lastAt), group.example]),
        ),
  );
  return 0;
}

async function showDead(operator: Operator, [id]: string[]): Promise<number> {
  const command = id === undefined ? null : await findCommand(operator.mongo, id);
  if (command === null) {
    operator.fail(id === undefined ? 'ID is required: the id of a command' : `no command with id ${id}`);
    return 1;
  }
  const superseded = (await isSupersededSettlement(operator, command)) ? { superseded: true } : {};
  operator.say(JSON.stringify({ ...command, ...stateOf(command, operator.now()), ...superseded }, null, 2));
  if (superseded.superseded === true) operator.note(SUPERSEDED_WARNING);
  return 0;
}

const SUPERSEDED_WARNING =
  'warning: superseded: an equal request was charged anew, so a replay would charge an answer that no request returns';
const REFUSED = '  skipped: superseded; pass --charge-superseded to charge an answer that no request returns';
const WILL_CHARGE = '  superseded: charges an answer that no request returns';

/** Returns true if the command would charge an answer that no request returns any longer. */
async function isSupersededSettlement({ mongo }: Operator, { queue, subject }: Command): Promise<boolean> {
  return queue === 'settlement' && isSuperseded(mongo, subject);
}

/** Returns the state of a delivery as the API names it, for example DEAD_LETTERED. Other commands have a status only. */
function stateOf({ queue, status, lockedUntil }: Command, now: number): { state?: string } {
  if (MAILBOX_OF[queue] !== DELIVERIES) return {};
  return { state: deliveryJobState(status, lockedUntil !== null && lockedUntil.getTime() > now) };
}

async function replay(operator: Operator, ids: string[], flags: Flags): Promise<number> {
  const reason = reasonOf(operator, flags);
  if (reason === null) return 2;
  if (ids.length === 0 && flags.queue === undefined) return refuse(operator, 'pass command ids or --queue QUEUE');
  const noQueue = unknownQueue(flags);
  if (noQueue !== null) return refuse(operator, noQueue);
  const limit = limitOf(flags, 100);
  if (limit === null) return refuse(operator, LIMIT_WANTED);
  const wanted = await chosen(operator, ids, flags, limit);
  const superseded = new Set<string>();
  for (const command of wanted) if (await isSupersededSettlement(operator, command)) superseded.add(command._id);
  const mayCharge = flags['charge-superseded'] === true;
  const isRefused = ({ _id }: Command) => superseded.has(_id) && !mayCharge;
  if (flags.yes !== true) {
    const count = wanted.filter((command) => !isRefused(command)).length;
    const pronoun = count === 1 ? 'it' : 'them';
    operator.say(`dry run: ${counted(count, 'dead command')} would be replayed; pass --yes to replay ${pronoun}`);
    for (const command of wanted) {
      const note = isRefused(command) ? REFUSED : superseded.has(command._id) ? WILL_CHARGE : '';
      operator.say(`  ${command._id}  ${command.queue}  ${command.lastError?.message ?? ''}${note}`);
    }
    return 0;
  }
  let revived = 0;
  for (const command of wanted) {
    if (isRefused(command)) {
      operator.say(`${command._id}${REFUSED}`);
      continue;
    }
    const act = actFor(operator, reason);
    const done = await replayDead(operator.mongo, command, act, { chargeSuperseded: superseded.has(command._id) });
    operator.say(`${command._id}  ${done ? 'replayed' : 'skipped: not dead'}`);
    if (done) revived += 1;
  }
  operator.say(`${revived} of ${wanted.length} replayed`);
  return revived === wanted.length && revived > 0 ? 0 : 1;
}

async function chosen(operator: Operator, ids: string[], flags: Flags, limit: number): Promise<Command[]> {
  if (ids.length === 0) {
    return deadCommands(operator.mongo, {
      limit,
      ...(flags.queue === undefined ? {} : { queue: flags.queue }),
      ...(flags.cause === undefined ? {} : { fingerprint: flags.cause }),
    });
  }
  const found = await Promise.all(ids.map((id) => findCommand(operator.mongo, id)));
  for (const [index, id] of ids.entries()) if (found[index] === null) operator.fail(`no command with id ${id}`);
  return found.filter((command) => command !== null);
}

async function listWorkers(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const now = operator.now();
  const rows = await liveWorkers(operator.mongo, now);
  print(operator, flags, rows, () =>
    table(
      ['actor', 'host', 'pid', 'busy', 'rss', 'seen', 'version'],
      rows.map((row) => [
        row.actor,
        row.host,
        `${row.pid}`,
        `${row.busy.length}/${row.slots}`,
        `${Math.round(row.rssBytes / 1e6)} MB`,
        `${Math.round((now - row.seenAt.getTime()) / 1_000)} s ago`,
        row.version,
      ]),
    ),
  );
  return 0;
}

async function listQueues(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const now = operator.now();
  const live = await liveWorkers(operator.mongo, now);
  const depths = (await queueDepths(operator.mongo, now, live)).map((depth) => ({
    ...depth,
    workers: live.filter(({ actor }) => actor === actorOf(depth.queue)).length,
  }));
  print(operator, flags, depths, () =>
    table(
      ['queue', 'waiting', 'due', 'running', 'dead', 'oldest due', 'workers'],
      depths.map((depth) => [
        depth.queue,
        `${depth.waiting}`,
        `${depth.due}`,
        `${depth.running}`,
        `${depth.dead}`,
        depth.oldestDueMs === null ? '-' : `${Math.round(depth.oldestDueMs / 1_000)} s`,
        depth.due > 0 && depth.workers === 0 ? `no worker: scale \`${actorOf(depth.queue)}\`` : `${depth.workers}`,
      ]),
    ),
  );
  return 0;
}

/** Returns the fault of a misspelt queue, otherwise null. An empty list would make the operator believe that the queue is empty. */
function unknownQueue({ queue }: Flags): string | null {
  return queue === undefined || (QUEUES as readonly string[]).includes(queue)
    ? null
    : `--queue must be one of ${QUEUES.join(', ')}`;
}
