import type { Neighbour } from '#infra/config/settings.ts';
import type { CallLimits } from '#infra/neighbours/call.ts';
import { sendNotice } from '#infra/neighbours/events.ts';
import { resolveParents } from '#infra/neighbours/profile.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { Actor, Handlers, WorkerDeps } from '#workers/actor.ts';
import {
  NOTICE_BACKOFF_CAP_MS,
  type NoticeOutcome,
  noAnswerOf,
  noticeOutcome,
  profileRefusal,
  watched,
} from '#workers/notice-outcome.ts';

/**
 * Delivers the outbox to the notification service, at least once; the receiver recognises a repeat by the row's stable
 * sourceEventId. Only this actor resolves parents. Rows whose neighbour is not configured stay unclaimed.
 */
export function gradeNoticesActor(deps: WorkerDeps): Actor {
  const { notification, profile } = deps.config.neighbours;
  const { outboundTimeoutMs: timeoutMs } = deps.config;
  const handlers: Handlers = {};
  if (notification !== null) {
    handlers['gradenotices:student'] = ({ command: { body }, signal }) =>
      watched(deps, deliverTo(notification, body, [body.studentId], { timeoutMs, signal }));
  }
  if (notification !== null && profile !== null) {
    handlers['gradenotices:parent'] = ({ command: { body }, signal }) =>
      watched(deps, deliverToParents(deps, notification, profile, body, { timeoutMs, signal }));
  }
  return {
    name: 'gradenotices',
    yieldsTo: 'grading',
    handlers,
    backoff: { baseMs: deps.config.attempt.outbox.retryBaseMs, capMs: NOTICE_BACKOFF_CAP_MS },
  };
}

async function deliverToParents(
  deps: Pick<WorkerDeps, 'alarm' | 'log'>,
  notification: Neighbour,
  profile: Neighbour,
  notice: GradeNotice,
  limits: CallLimits,
): Promise<NoticeOutcome> {
  const parents = await resolveParents(profile, notice, limits);
  switch (parents.kind) {
    case 'parents':
      if (parents.leftOut > 0) {
        deps.alarm('parents_left_out');
        deps.log.warn(
          { attemptId: notice.attemptId, leftOut: parents.leftOut },
          'parents left out; their ids are no person ids',
        );
      }
      return deliverTo(notification, notice, parents.ids, limits);
    case 'unreadable':
      return { kind: 'retry', error: new Error('the profile service returned no list of parent ids') };
    case 'refused':
      return profileRefusal(parents.reply);
    case 'unanswered':
      return { kind: 'retry', error: noAnswerOf('profile', parents.error) };
  }
}

async function deliverTo(
  notification: Neighbour,
  notice: GradeNotice,
  recipients: readonly string[],
  limits: CallLimits,
): Promise<NoticeOutcome> {
  const result = { recipients: recipients.length };
  if (recipients.length === 0) return { kind: 'done', as: 'DELIVERED', result };
  return noticeOutcome(await sendNotice(notification, notice, recipients, limits), result);
}
