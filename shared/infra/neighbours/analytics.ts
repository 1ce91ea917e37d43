import type { Neighbour } from '#infra/config/settings.ts';
import type { AnalyticsEvent } from '#shared/attempt/analytics.ts';
import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { type CallEnd, type CallLimits, endOfCall, postEvent } from './call.ts';

/**
 * Sends one event to the analytics service, which recognizes a repeat by the event's stable id.
 *
 * @throws the signal's reason, if the signal was aborted
 */
export function sendToAnalytics(service: Neighbour, event: AnalyticsEvent, limits: CallLimits): Promise<CallEnd> {
  return endOfCall(postEvent(service, { sender: ATTEMPT_SERVICE, body: event }, limits), limits.signal);
}
