import type { FaultDetail } from '../kernel/errors.ts';
import { parentsOf } from './weak-topic.ts';

/** An event names both halves of its replay key or neither: one alone would promise what nobody keeps. */
export function sourcePairFaults(
  { sourceService, sourceEventId }: { sourceService?: unknown; sourceEventId?: unknown },
  at = '',
): FaultDetail[] {
  const hasService = isThere(sourceService);
  if (hasService === isThere(sourceEventId)) return [];
  const missing = hasService ? 'sourceEventId' : 'sourceService';
  return [{ path: `${at}/${missing}`, message: 'is required beside the other half of the replay key' }];
}

/** Somebody must be told. */
export function recipientFaults(alert: Parameters<typeof parentsOf>[0]): FaultDetail[] {
  return parentsOf(alert).length > 0 ? [] : [{ path: '/parentIds', message: 'must name at least one parent' }];
}

function isThere(value: unknown): boolean {
  return value !== undefined && value !== null;
}
