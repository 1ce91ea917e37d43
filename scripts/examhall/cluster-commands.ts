import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { queueDepths } from '#infra/mongo/mailbox/queue-depths.ts';
import { EXIT } from './exit-codes.ts';
import type { CliCommands, Flags, Operator } from './operator.ts';
import { print, table } from './output.ts';

/** The commands for queues and workers. */
export const CLUSTER_COMMANDS: CliCommands = {
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
};

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
  const depths = await queueDepths(operator.mongo, now, await liveWorkers(operator.mongo, now));
  print(operator, flags, depths, () =>
    table(
      ['queue', 'waiting', 'due', 'running', 'dead', 'oldest due'],
      depths.map((depth) => [
        depth.queue,
        `${depth.waiting}`,
        `${depth.due}`,
        `${depth.running}`,
        `${depth.dead}`,
        depth.oldestDueMs === null ? '-' : `${Math.round(depth.oldestDueMs / 1_000)} s`,
      ]),
    ),
  );
  return EXIT.done;
}
