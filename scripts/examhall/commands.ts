import { isSuperseded } from '#infra/mongo/classifier/generation-epochs.ts';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { actorOf, DELIVERIES, MAILBOX_OF } from '#infra/mongo/mailbox/commands.ts';
import { deadCommands, deadGroups, findCommand, replayDead } from '#infra/mongo/mailbox/dead-letters.ts';
import { queueDepths } from '#infra/mongo/mailbox/queue-depths.ts';
import type { Command } from '#shared/kernel/command.ts';
import { deliveryJobState } from '#shared/notification/delivery.ts';
import { EXIT } from './exit-codes.ts';
import { actFor, type CliCommands, counted, type Flags, type Operator, reasonOf } from './operator.ts';
import { iso, LIMIT_WANTED, limitOf, print, refuse, table } from './output.ts';

/** The commands for mailboxes and workers. */
export const COMMANDS: CliCommands = {
  queues: {
    summary: 'list waiting, due, running and dead commands, and the age of the oldest due one',
    options: ['json', 'watch'],
    examples: ['queues', 'queues --watch 5'],
    run: listQueues,
  },
  workers: {
    summary: 'list live worker processes and their current work',
    options: ['json', 'watch'],
    examples: ['workers', 'workers --json | jq \'.[] | select(.actor == "grading")\''],
    run: listWorkers,
  },
  'dead list': {
    summary: 'list dead letters, grouped by queue and cause',
    options: ['queue', 'json'],
    examples: ['dead list', 'dead list --queue delivery:webhook'],
    run: listDead,
  },
  'dead show': {
    summary: 'print one command as JSON',
    args: { '<id>': 'id of the command, as `dead list` prints it' },
    options: ['json'],
    examples: ['dead show 01a205a8-0eb0-7d7f-ac5e-c6d6312290b5'],
    run: showDead,
  },
  'dead replay': {
    summary: 'replay dead commands, once per death; audited',
    details: `Pass ids, or --queue with or without --cause. A settlement whose request was charged anew is skipped, unless
--charge-superseded is set.`,
    args: { '[id...]': 'ids of dead commands' },
    options: ['queue', 'cause', 'limit', 'reason', 'charge-superseded', 'operator', 'yes', 'json'],
    examples: [
      'dead replay --queue grading --reason "disk was cleared"',
      'dead replay --queue grading --reason "disk was cleared" --yes',
    ],
    run: replay,
  },
};

async function listDead(operator: Operator, _words: string[], flags: Flags): Promise<number> {
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
  return EXIT.done;
}

async function showDead(operator: Operator, [id = '']: string[]): Promise<number> {
  const command = await findCommand(operator.mongo, id);
  if (command === null) {
    operator.fail(`no command with id ${id}`);
    return EXIT.failed;
  }
  const superseded = (await isSupersededSettlement(operator, command)) ? { superseded: true } : {};
  operator.say(JSON.stringify({ ...command, ...stateOf(command, operator.now()), ...superseded }, null, 2));
  if (superseded.superseded === true) operator.note(SUPERSEDED_WARNING);
  return EXIT.done;
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
  if (reason === null) return EXIT.usage;
  if (ids.length === 0 && flags.queue === undefined) return refuse(operator, 'pass command ids or --queue QUEUE');
  const limit = limitOf(flags, 100);
  if (limit === null) return refuse(operator, LIMIT_WANTED);
  const wanted = await chosen(operator, ids, flags, limit);
  const superseded = new Set<string>();
  for (const command of wanted) if (await isSupersededSettlement(operator, command)) superseded.add(command._id);
  const mayCharge = flags.chargeSuperseded === true;
  const rows: ReplayRow[] = [];
  for (const command of wanted) {
    const { _id: id, queue, lastError } = command;
    const isCharge = superseded.has(id);
    const row = { id, queue, cause: lastError?.message ?? '', superseded: isCharge };
    if (isCharge && !mayCharge) rows.push({ ...row, outcome: 'refused' });
    else if (flags.yes !== true) rows.push({ ...row, outcome: 'dry run' });
    else {
      const act = actFor(operator, reason);
      const isDone = await replayDead(operator.mongo, command, act, { chargeSuperseded: isCharge });
      rows.push({ ...row, outcome: isDone ? 'replayed' : 'not dead' });
    }
  }
  print(operator, flags, { dryRun: flags.yes !== true, rows }, () =>
    flags.yes === true ? replayText(rows) : dryRunText(rows),
  );
  if (flags.yes !== true) return EXIT.done;
  return rows.length > 0 && rows.every(({ outcome }) => outcome === 'replayed') ? EXIT.done : EXIT.failed;
}

/** The result for one command that the operator has chosen. */
interface ReplayRow {
  id: string;
  queue: string;
  cause: string;
  /** A replay charges an answer that no request returns any longer. */
  superseded: boolean;
  outcome: 'dry run' | 'replayed' | 'refused' | 'not dead';
}

function dryRunText(rows: readonly ReplayRow[]): string {
  const count = rows.filter(({ outcome }) => outcome === 'dry run').length;
  const pronoun = count === 1 ? 'it' : 'them';
  return [
    `dry run: ${counted(count, 'dead command')} would be replayed; pass --yes to replay ${pronoun}`,
    ...rows.map(({ id, queue, cause, superseded, outcome }) => {
      const note = outcome === 'refused' ? REFUSED : superseded ? WILL_CHARGE : '';
      return `  ${id}  ${queue}  ${cause}${note}`;
    }),
  ].join('\n');
}

function replayText(rows: readonly ReplayRow[]): string {
  const texts = { 'dry run': '', replayed: '  replayed', refused: REFUSED, 'not dead': '  skipped: not dead' };
  const revived = rows.filter(({ outcome }) => outcome === 'replayed').length;
  return [...rows.map(({ id, outcome }) => `${id}${texts[outcome]}`), `${revived} of ${rows.length} replayed`].join(
    '\n',
  );
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
  return EXIT.done;
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
  return EXIT.done;
}
