import type { FaultDetail } from '#shared/kernel/errors.ts';
import { isJsonObject } from '#shared/kernel/json-object.ts';
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

/** The same of bodies that are refused already, of whatever shape: a fault that stands at the place is not told twice. */
export function eventFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  return isJsonObject(body) ? unknownTo(known, sourcePairFaults(body)) : [];
}

export function batchFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  return isJsonObject(body) && isJsonObject(body.event) ? unknownTo(known, sourcePairFaults(body.event, '/event')) : [];
}

export function weakTopicFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  if (!isJsonObject(body)) return [];
  const names = [body.parentIds, body.recipientIds].some(
    (ids) => isThere(ids) && !(Array.isArray(ids) && ids.length === 0),
  );
  return names ? [] : unknownTo(known, recipientFaults({}));
}

function unknownTo(known: readonly FaultDetail[], faults: readonly FaultDetail[]): FaultDetail[] {
  const told = new Set(known.map(({ path }) => path));
  return faults.filter(({ path }) => !told.has(path));
}

function isThere(value: unknown): boolean {
  return value !== undefined && value !== null;
}
