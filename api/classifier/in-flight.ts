import { leasePreview, releasePreview, renewPreview } from '#infra/mongo/classifier/in-flight.ts';
import { isErased } from '#infra/mongo/erased-persons.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import type { PreviewDeps } from './deps.ts';

/** Previews that one actor may have in flight, at all front doors together. */
const MAX_IN_FLIGHT = 4;
/** Lease of a preview in flight (ms). After a front door is killed, its previews count for at most this long. */
const LEASE_MS = MINUTE;
const RENEW_MS = LEASE_MS / 4;
/** `Retry-After` of a preview that exceeds the limit (s). The end of the others is unknown. */
const RETRY_AFTER_SECONDS = 5;

/**
 * Makes a preview while its actor has fewer than MAX_IN_FLIGHT others in flight; otherwise rejects it and calls nothing. That of an erased
 * actor is rejected too. An erasure that begins later waits for the lease, or its second pass finds it.
 */
export async function inFlight<Result>(
  { mongo, now, log }: Pick<PreviewDeps, 'mongo' | 'now' | 'log'>,
  actorId: string,
  make: () => Promise<Result>,
): Promise<Result | Rejection> {
  if (await isErased(mongo, actorId)) return { rejected: 'PERSON_ERASED' };
  const lease = { actorId, leaseId: newId(now()) };
  const leased = await leasePreview(mongo, lease, { limit: MAX_IN_FLIGHT, leaseMs: LEASE_MS, now: now() });
  if (leased.kind === 'full') {
    const message = `The caller has ${MAX_IN_FLIGHT} previews in flight; wait for a reply`;
    return { rejected: 'RATE_LIMITED', message, retryAfter: RETRY_AFTER_SECONDS };
  }
  // A renewal or release that fails must not fail the preview: without it the lease ends by itself, and the place is free a minute later.
  const warn = (err: unknown) => log.warn({ err }, 'lease of a preview in flight could not be changed');
  const renewal = setInterval(() => void renewPreview(mongo, lease, LEASE_MS).catch(warn), RENEW_MS);
  try {
    return await make();
  } finally {
    clearInterval(renewal);
    await releasePreview(mongo, lease).catch(warn);
  }
}
