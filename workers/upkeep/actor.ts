import { openSubscriberPosts } from '#infra/channels/subscriber.ts';
import { OVERDUE_ATTEMPTS_SWEEP } from '#shared/attempt/commands.ts';
import { UNPAID_GENERATIONS_SWEEP } from '#shared/classifier/commands.ts';
import { EVENT_QUEUES } from '#shared/kernel/command.ts';
import { ORPHANED_FAN_OUTS_SWEEP } from '#shared/notification/commands.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { actOnDeadLetters } from './act-on-dead-letters.ts';
import { EVENT_BACKOFF_CAP_MS, reportToAnalytics, reportToAudit } from './events-out.ts';
import { finishFanOut } from './finish-fan-out.ts';
import { publishEvent } from './publish-event.ts';
import { isRetentionSet, RETENTION_SWEEP, sweepRetention } from './retention.ts';
import { sendMessage } from './send-message.ts';
import {
  ERASURES_SWEEP,
  sweepErasures,
  sweepOrphanedFanOuts,
  sweepOverdueAttempts,
  sweepUnpaidGenerations,
} from './sweeps.ts';

type Sweep = (deps: WorkerDeps, run: Run<'upkeep'>) => Promise<Outcome<'upkeep'>>;

/** The sweep of each recurring command, by its subject. A subject that is not here belongs to the oldest sweep. */
const SWEEPS: Readonly<Record<string, Sweep>> = {
  [OVERDUE_ATTEMPTS_SWEEP.subject]: sweepOverdueAttempts,
  [ORPHANED_FAN_OUTS_SWEEP.subject]: sweepOrphanedFanOuts,
  [UNPAID_GENERATIONS_SWEEP.subject]: sweepUnpaidGenerations,
  [ERASURES_SWEEP.subject]: sweepErasures,
  [RETENTION_SWEEP.subject]: sweepRetention,
};

/**
 * Runs the recurring sweeps for work that no other process finishes and for data at the end of its retention, if one is set. Finishes
 * large fan-outs, carries out bulk acts on dead letters, and sends events to subscribers, the analytics and the audit service. Events of a service that is
 * not configured stay unclaimed.
 */
export function upkeepActor(deps: WorkerDeps): Actor {
  const { overdueSweepEnabled } = deps.config.attempt;
  const { analytics, audit } = deps.config.neighbours;
  const eventBackoff = { baseMs: deps.config.worker.retryBaseDelayMs, capMs: EVENT_BACKOFF_CAP_MS };
  const { production, subscriptions } = deps.config;
  const post = openSubscriberPosts({ production, ...subscriptions });
  const sweeps = [
    ORPHANED_FAN_OUTS_SWEEP,
    UNPAID_GENERATIONS_SWEEP,
    ERASURES_SWEEP,
    ...(isRetentionSet(deps) ? [RETENTION_SWEEP] : []),
  ];
  return {
    name: 'upkeep',
    yieldsTo: 'grading',
    backoff: { baseMs: deps.config.worker.retryBaseDelayMs, capMs: 60_000 },
    backoffOf: Object.fromEntries(EVENT_QUEUES.map((queue) => [queue, eventBackoff])),
    turns: { 'upkeep:webhooks': 'HALF' },
    recurring: overdueSweepEnabled ? [OVERDUE_ATTEMPTS_SWEEP, ...sweeps] : sweeps,
    handlers: {
      upkeep: (run) => (SWEEPS[run.command.subject] ?? sweepOverdueAttempts)(deps, run),
      'upkeep:fanouts': (run) => finishFanOut(deps, run),
      'upkeep:deadletters': (run) => actOnDeadLetters(deps, run),
      'upkeep:publish': (run) => publishEvent(deps, run),
      'upkeep:webhooks': (run) => sendMessage(deps, post, run),
      ...(analytics === null ? {} : { 'upkeep:analytics': (run) => reportToAnalytics(deps, analytics, run) }),
      ...(audit === null ? {} : { 'upkeep:audit': (run) => reportToAudit(deps, audit, run) }),
    },
  };
}
