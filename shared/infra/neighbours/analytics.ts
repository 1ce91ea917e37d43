import type { Neighbour } from '#infra/config/settings.ts';
import type { AnalyticsEvent } from '#shared/attempt/analytics.ts';
import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { type CallLimits, isSuccess, postEvent } from './call.ts';

/**
 * Sends one event to the analytics service, which recognizes a repeat by the event's stable id.
 *
 * @throws if the service does not accept it
 */
export async function sendToAnalytics(service: Neighbour, event: AnalyticsEvent, limits: CallLimits): Promise<void> {
  const reply = await postEvent(service, { sender: ATTEMPT_SERVICE, body: event }, limits);
  if (!isSuccess(reply)) throw new Error(`the analytics service answered ${reply.status}`);
}
