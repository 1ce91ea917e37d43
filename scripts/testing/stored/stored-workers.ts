import type { WorkerRow } from '#infra/mongo/live-workers.ts';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { SCHEMA_VERSION } from '#infra/mongo/schema/migrate.ts';
import { actorOf } from '#shared/kernel/command.ts';

/** Returns the row of a live worker process of the actor, which serves all queues of it and runs nothing. */
export function workerRow(actor: string, change: Partial<WorkerRow> = {}): WorkerRow {
  return {
    _id: `${actor}@host:1`,
    actor,
    queues: QUEUES.filter((queue) => actorOf(queue) === actor),
    host: 'host',
    pid: 1,
    version: '0.1.0',
    schema: SCHEMA_VERSION,
    startedAt: new Date(),
    seenAt: new Date(),
    slots: 8,
    busy: [],
    rssBytes: 1,
    unanswering: [],
    heldLoop: null,
    settled: {},
    failed: {},
    died: {},
    ...change,
  };
}
