import type { Neighbour } from '#infra/config/settings.ts';
import { callService, type ServiceReply } from '#infra/neighbours/call.ts';
import { ATTEMPT_SERVICE, type GradeNotice, intakeBody } from '#shared/attempt/notices.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import type { Actor, Run } from '#workers/actor.ts';
import type { WorkerDeps } from '#workers/deps.ts';
import type { Outcome } from '#workers/outcome.ts';
import { noticeOutcome } from './notice-outcome.ts';
import { resolveParents } from './resolve-parents.ts';

const CAP_MS = 60 * 60_000;

/**
 * Delivers the outbox to the notification service, at least once; the receiver tells a repeat by the row's stable
 * sourceEventId. Parents are resolved here and nowhere else. Rows whose neighbour is not configured are left alone.
 */
export function gradeNoticesActor(deps: WorkerDeps): Actor<GradeNotice> {
  const { notification, profile } = deps.config.neighbours;
  const queues: Queue[] = [];
  if (notification !== null) queues.push('gradenotices:student');
  if (notification !== null && profile !== null) queues.push('gradenotices:parent');
  return {
    name: 'gradenotices',
    queues,
    backoff: { baseMs: deps.config.attempt.outbox.retryBaseMs, capMs: CAP_MS },
    run: (run) => deliver(deps, run),
  };
}

async function deliver(deps: WorkerDeps, run: Run<GradeNotice>): Promise<Outcome> {
  const outcome = await delivery(deps, run);
  // Of both neighbours: only what is set wrong puts a notice back, unspent.
  if (outcome.kind === 'snooze') deps.alarm('notice_misconfigured');
  return outcome;
}

async function delivery(deps: WorkerDeps, { command, signal }: Run<GradeNotice>): Promise<Outcome> {
  const { notification } = deps.config.neighbours;
  if (notification === null) throw new Error('a notice was claimed without a notification service');
  const recipients = await recipientsOf(deps, command, signal);
  if ('kind' in recipients) return recipients;
  if (recipients.ids.length === 0) return { kind: 'done', as: 'DELIVERED', result: { recipients: 0 } };
  const sent = await send(deps, notification, command.body, recipients.ids, signal);
  return noticeOutcome(sent, { recipients: recipients.ids.length });
}

async function recipientsOf(
  deps: WorkerDeps,
  { body }: Command<GradeNotice>,
  signal: AbortSignal,
): Promise<{ ids: string[] } | Outcome> {
  if (body.recipient === 'STUDENT') return { ids: [body.studentId] };
  return resolveParents(deps, body.studentId, body.organizationId, signal);
}

/** The reply, or the error where there was none: a failed delivery spends its attempt whatever the cause. */
async function send(
  deps: WorkerDeps,
  to: Neighbour,
  notice: GradeNotice,
  recipients: string[],
  signal: AbortSignal,
): Promise<ServiceReply | Error> {
  try {
    return await callService({
      method: 'POST',
      url: `${to.url}/v1/events/notification`,
      sender: ATTEMPT_SERVICE,
      token: to.token,
      body: intakeBody(notice, recipients),
      timeoutMs: deps.config.outboundTimeoutMs,
      signal,
    });
  } catch (error) {
    signal.throwIfAborted();
    return error instanceof Error ? error : new Error(String(error));
  }
}
