import { isUnserved, liveWorkers } from '#infra/mongo/live-workers.ts';
import { actorOf } from '#infra/mongo/mailbox/commands.ts';
import { type QueueDepth, queueDepths } from '#infra/mongo/mailbox/queue-depths.ts';
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
  const live = await liveWorkers(operator.mongo, now);
  const depths = (await queueDepths(operator.mongo, now, live)).map((depth) => ({
    ...depth,
    workers: live.filter(({ actor }) => actor === actorOf(depth.queue)).length,
    configured: !isUnserved(depth.queue, actorOf(depth.queue), live),
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
        workersOf(depth),
      ]),
    ),
  );
  return EXIT.done;
}

/** Returns the number of live workers of a queue, or why its commands wait. */
function workersOf({ queue, due, workers, configured }: QueueDepth & { workers: number; configured: boolean }): string {
  if (!configured) return `${workers}, not configured for it`;
  return due > 0 && workers === 0 ? `no worker: scale \`${actorOf(queue)}\`` : `${workers}`;
}
