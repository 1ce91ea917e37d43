import { readQueues, readStatus, readWorkers } from '#infra/mongo/operations/cluster.ts';
import { storesRings } from '#infra/redis/connection.ts';
import type { ClusterStatus, QueueState } from '#shared/generated/operations.ts';
import type { CliCommands, Operator } from './operator.ts';
import type { Flags } from './options.ts';
import { counted, EXIT, print, table } from './output.ts';

/** The commands for the whole cluster: whether it needs its operator, its queues and its workers. */
export const STATUS_COMMANDS: CliCommands = {
  status: {
    summary: 'check whether all is well; otherwise print what to do',
    details: `Exit code 1 with an alarm: work is due without a live worker, a queue is a minute late, a
command that harmed two workers is held or runs alone, one piece of work held an event loop
for 2.5 s, a dead letter is neither acknowledged nor dropped, Redis stores no rings, a service does
not answer or refuses its token, its sender or its address, commands have failed for ten minutes, a
run hangs, or the schema does not fit. A note is no alarm: commands wait for a setting, or reports to
other systems fail or are dead.`,
    options: ['json', 'watch'],
    examples: ['status', 'status --watch', 'status --json || notify-operator'],
    run: tellStatus,
  },
};

export const CLUSTER_COMMANDS: CliCommands = {
  queues: {
    summary: 'list waiting, due, running and dead commands, and the age of the oldest due one',
    details: '--json also has the load of each process type, as `GET /v1/ops/queues` returns it.',
    options: ['json', 'watch'],
    examples: ['queues', 'queues --watch 5', 'queues --json | jq .actors'],
    run: listQueues,
  },
  workers: {
    summary: 'list live worker processes and their current work',
    options: ['json', 'watch'],
    examples: ['workers', 'workers --json | jq \'.workers[] | select(.actor == "grading")\''],
    run: listWorkers,
  },
};

async function tellStatus(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const { mongo, redisUrl } = operator;
  const status = await readStatus(mongo, operator.now(), () => storesRings(redisUrl));
  const { well, alarms, notes, workers, running, due } = status;
  print(operator, flags, status, () => [
    verdictOf(status),
    ...alarms.map(({ text, remedy }) => `  ${text}: ${remedy}`),
    ...notes.map(({ text, remedy }) => `  note: ${text}: ${remedy}`),
    `${workers} live worker processes, ${running} commands running, ${due} due`,
  ]);
  return well ? EXIT.done : EXIT.failed;
}

function verdictOf({ well, alarms, notes }: ClusterStatus): string {
  if (well && notes.length === 0) return 'all is well';
  const noted = notes.length === 0 ? '' : `, ${counted(notes.length, 'note')}`;
  return `${well ? 'no alarm' : counted(alarms.length, 'alarm')}${noted}`;
}

async function listWorkers(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const list = await readWorkers(operator.mongo, operator.now());
  return print(operator, flags, list, () =>
    table(list.workers, {
      actor: ({ actor }) => actor,
      host: ({ host }) => host,
      pid: ({ pid }) => pid,
      busy: ({ busy, slots }) => `${busy.length}/${slots}`,
      memory: ({ rssBytes }) => `${Math.round(rssBytes / 1e6)} MB`,
      seen: ({ seenAt }) => `${Math.round((Date.parse(list.at) - Date.parse(seenAt)) / 1_000)} s ago`,
      version: ({ version }) => version,
      'not answering': ({ unanswering }) => unanswering.map(({ name }) => name).join(' ') || null,
      commands: ({ busy }) => commandsOf(busy),
    }),
  );
}

async function listQueues(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const list = await readQueues(operator.mongo, operator.now());
  return print(operator, flags, list, () =>
    table(list.queues, {
      queue: ({ queue }) => queue,
      waiting: ({ waiting }) => waiting,
      due: ({ due }) => due,
      running: ({ running }) => running,
      dead: ({ dead }) => dead,
      acknowledged: ({ acknowledged }) => acknowledged,
      'oldest due': ({ oldestDueMs }) => (oldestDueMs === null ? null : `${Math.round(oldestDueMs / 1_000)} s`),
      workers: workersOf,
    }),
  );
}

/** Ids that a row shows, as in the console. */
const SHOWN_IDS = 5;

/** Returns the ids of the commands that a worker runs. `--json` has all of them. */
function commandsOf(busy: readonly string[]): string | null {
  if (busy.length === 0) return null;
  const more = busy.length > SHOWN_IDS ? [`+${busy.length - SHOWN_IDS}`] : [];
  return [...busy.slice(0, SHOWN_IDS), ...more].join(' ');
}

/** Returns the number of live workers of a queue, or why its commands wait. */
function workersOf({ actor, due, workers, configured }: QueueState): string {
  if (!configured) return `${workers}, not configured for it`;
  return due > 0 && workers === 0 ? `no worker: scale \`${actor}\`` : `${workers}`;
}
