import { expireSuppressions } from '#infra/mongo/notification/suppressions.ts';
import {
  type Expiry,
  expireAttempts,
  expireEvents,
  expireJobs,
  expireNotifications,
} from '#infra/mongo/person/retention.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { Outcome, Run, WorkerDeps } from '#workers/actor.ts';

/** The recurring command that expires data. It is posted only if a retention is set. */
export const RETENTION_SWEEP = { queue: 'upkeep', key: 'upkeep:retention', subject: 'retention' } as const;

/** Rows of one portion. A sweep takes one portion of each kind, so that a large backlog delays no other command for long. */
const ROWS_AT_ONCE = 100;
/** Pause while a backlog remains (ms). */
const BACKLOG_PAUSE_MS = SECOND;

/** Returns true if data of any kind expires. */
export function isRetentionSet({ config }: Pick<WorkerDeps, 'config'>): boolean {
  return Object.values(config.upkeep.retention).some((ageMs) => ageMs !== null);
}

/**
 * Expires one portion of each kind of data whose retention is set. Every portion is found by an index and can be repeated: a sweep
 * that was killed finds the rest again. Attempts may have to wait, so a sweep continues after those that the last one has read.
 */
export async function sweepRetention(
  deps: WorkerDeps,
  { command, checkpoint, signal }: Run<'upkeep'>,
): Promise<Outcome<'upkeep'>> {
  const { attemptsMs, notificationsMs, jobsMs } = deps.config.upkeep.retention;
  let hasBacklog = false;
  const expiryOf = (ageMs: number): Expiry => {
    signal.throwIfAborted();
    const now = deps.now();
    return { before: new Date(now - ageMs), now: new Date(now), limit: ROWS_AT_ONCE };
  };
  const report = (kind: string, rows: number) => {
    if (rows > 0) deps.log.info({ kind, rows }, 'expired data at the end of its retention');
  };

  if (attemptsMs !== null) {
    const from = command.progress?.attempts ?? null;
    const { finished, next } = await expireAttempts(deps.mongo, expiryOf(attemptsMs), from);
    report('attempts', finished);
    // A portion that waits as a whole is no reason to hurry: its attempts wait for other work.
    hasBacklog = next !== null && finished > 0;
    if (next !== from) await checkpoint({ attempts: next }, async () => undefined);
  }
  const kinds = [
    { name: 'notifications', ageMs: notificationsMs, expire: expireNotifications },
    { name: 'events', ageMs: notificationsMs, expire: expireEvents },
    { name: 'suppressions', ageMs: notificationsMs, expire: expireSuppressions },
    { name: 'jobs', ageMs: jobsMs, expire: expireJobs },
  ];
  for (const { name, ageMs, expire } of kinds) {
    if (ageMs === null) continue;
    const rows = await expire(deps.mongo, expiryOf(ageMs));
    report(name, rows);
    hasBacklog ||= rows === ROWS_AT_ONCE;
  }
  return { kind: 'snooze', afterMs: hasBacklog ? BACKLOG_PAUSE_MS : deps.config.upkeep.intervalMs };
}
