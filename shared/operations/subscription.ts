import type { EventType } from '#shared/kernel/event-out.ts';
import { HOUR, SECOND } from '#shared/kernel/time.ts';

/** A receiver of events. */
export interface Subscription {
  _id: string;
  url: string;
  types: readonly EventType[];
  /** Only events of this organization; null: of all. */
  organizationId: string | null;
  description: string | null;
  state: 'ACTIVE' | 'DISABLED';
  /** Why it is disabled; null if an operator did it, or while it is active. */
  disabledReason: DisabledReason | null;
  secret: string;
  /** Signs beside `secret` until `previousUntil`. */
  previousSecret: string | null;
  previousUntil: Date | null;
  /** First failure since the last success. */
  failingSince: Date | null;
  /** No message is sent before this time, so that a receiver that hangs holds few slots. */
  pausedUntil: Date | null;
  createdAt: Date;
  updatedAt: Date;
}

/** `GONE`: the receiver answered 410. `FAILING`: no message succeeded for FAILING_MS. */
export type DisabledReason = 'GONE' | 'FAILING';

/** Maximum number of subscriptions, disabled ones included. */
export const MAX_SUBSCRIPTIONS = 50;
/** Time for which the secret before a rotation still signs. */
export const PREVIOUS_SECRET_MS = 24 * HOUR;
/** Time without a success after which a failing subscription is disabled. */
export const FAILING_MS = 72 * HOUR;
/** Time without a failure after which earlier failures are forgotten. The longest pause is shorter. */
const SILENCE_MS = 6 * HOUR;
/** Shortest and longest pause of a subscription after a failure. In between, it pauses a quarter of the time for which it has failed. */
export const PAUSE_MS = 30 * SECOND;
const LONGEST_PAUSE_MS = HOUR;

/** Returns the secrets that sign now, the current one first. */
export function signingSecrets({ secret, previousSecret, previousUntil }: Subscription, now: number): string[] {
  const isValid = previousSecret !== null && previousUntil !== null && previousUntil.getTime() > now;
  return isValid ? [secret, previousSecret] : [secret];
}

/** Returns the fields that a failure changes. A receiver that is gone, or that fails for too long, is disabled. */
export function afterFailure(
  { failingSince, pausedUntil }: Pick<Subscription, 'failingSince' | 'pausedUntil'>,
  { now, isGone }: { now: number; isGone: boolean },
): Partial<Subscription> {
  // Without traffic nothing proves that a receiver still fails: after a silence, a failure is the first one.
  const isRecent = pausedUntil !== null && now - pausedUntil.getTime() <= SILENCE_MS;
  const since = isRecent && failingSince !== null ? failingSince : new Date(now);
  const reason = isGone ? 'GONE' : now - since.getTime() >= FAILING_MS ? 'FAILING' : null;
  const pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(PAUSE_MS, (now - since.getTime()) / 4));
  const failing = { failingSince: since, pausedUntil: new Date(now + pauseMs), updatedAt: new Date(now) };
  return reason === null ? failing : { ...failing, state: 'DISABLED', disabledReason: reason };
}

/** Returns a subscription as a reply shows it: without its secrets. */
export function subscriptionView(subscription: Subscription) {
  const { _id: id, url, types, organizationId, description, state, disabledReason } = subscription;
  const { previousUntil, failingSince, createdAt, updatedAt } = subscription;
  return {
    id,
    url,
    types: [...types],
    organizationId,
    description,
    state,
    disabledReason,
    previousSecretUntil: previousUntil?.toISOString() ?? null,
    failingSince: failingSince?.toISOString() ?? null,
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
  };
}
