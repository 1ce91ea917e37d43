import { readQueues, readWorkers } from '#infra/mongo/operations/cluster.ts';
import type { QueueState } from '#shared/generated/operations.ts';
import { EXIT } from './exit-codes.ts';
import type { CliCommands, Flags, Operator } from './operator.ts';
import { print, table } from './output.ts';

/** The commands for queues and workers. */
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

async function listWorkers(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const list = await readWorkers(operator.mongo, operator.now());
  print(operator, flags, list, () =>
    table(
      ['actor', 'host', 'pid', 'busy', 'memory', 'seen', 'version', 'not answering', 'commands'],
      list.workers.map((row) => [
        row.actor,
        row.host,
        `${row.pid}`,
        `${row.busy.length}/${row.slots}`,
        `${Math.round(row.rssBytes / 1e6)} MB`,
        `${Math.round((Date.parse(list.at) - Date.parse(row.seenAt)) / 1_000)} s ago`,
        row.version,
        row.unanswering.map(({ name }) => name).join(' ') || '-',
        commandsOf(row.busy),
      ]),
    ),
  );
  return EXIT.done;
}

async function listQueues(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const list = await readQueues(operator.mongo, operator.now());
  print(operator, flags, list, () =>
    table(
      ['queue', 'waiting', 'due', 'running', 'dead', 'acknowledged', 'oldest due', 'workers'],
      list.queues.map((state) => [
        state.queue,
        `${state.waiting}`,
        `${state.due}`,
        `${state.running}`,
        `${state.dead}`,
        `${state.acknowledged}`,
        state.oldestDueMs === null ? '-' : `${Math.round(state.oldestDueMs / 1_000)} s`,
        workersOf(state),
      ]),
    ),
  );
  return EXIT.done;
}

/** Ids that a row shows, as in the console. */
const SHOWN_IDS = 5;

/** Returns the ids of the commands that a worker runs. `--json` has all of them. */
function commandsOf(busy: readonly string[]): string {
  if (busy.length === 0) return '-';
  const more = busy.length > SHOWN_IDS ? [`+${busy.length - SHOWN_IDS}`] : [];
  return [...busy.slice(0, SHOWN_IDS), ...more].join(' ');
}

/** Returns the number of live workers of a queue, or why its commands wait. */
function workersOf({ actor, due, workers, configured }: QueueState): string {
  if (!configured) return `${workers}, not configured for it`;
  return due > 0 && workers === 0 ? `no worker: scale \`${actor}\`` : `${workers}`;
}
