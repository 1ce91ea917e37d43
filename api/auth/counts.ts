import type { Metrics } from '#infra/metrics/metrics.ts';
import { LANE_KINDS } from '#infra/passwords/hash-queue.ts';
import type { Hasher } from '#infra/passwords/hasher.ts';

/** Outcomes of a login. `wrong_password`: or an unknown e-mail. `throttled_…`: refused by that throttle. `busy`: the hash queue was full. */
const LOGINS = ['succeeded', 'wrong_password', 'throttled_account', 'throttled_address', 'disabled', 'busy'] as const;

/**
 * Outcomes of a refresh. `invalid`: an unreadable, unknown or expired token, or an ended session. `repeated`: a used token within the
 * seconds in which two tabs or a retry may present it. `reuse`: a used token after that, which has ended its session.
 */
const REFRESHES = ['succeeded', 'invalid', 'repeated', 'reuse', 'disabled'] as const;

/**
 * Outcomes of a registration. `refused`: the password or another value is not accepted. `taken`:
 * e-mail or phone has an account. `throttled`: too many from its address.
 */
const REGISTRATIONS = ['succeeded', 'refused', 'taken', 'throttled', 'busy'] as const;

export type LoginOutcome = (typeof LOGINS)[number];
export type RefreshOutcome = (typeof REFRESHES)[number];
export type RegistrationOutcome = (typeof REGISTRATIONS)[number];

/** Counters of the auth service. No label names a person or an address. */
export interface AuthCounts {
  login(outcome: LoginOutcome): void;
  refresh(outcome: RefreshOutcome): void;
  registration(outcome: RegistrationOutcome): void;
}

/** Opens the counters. Each outcome begins at 0, because Prometheus finds no increase in a counter that appears with its first event. */
export function openAuthCounts(metrics: Pick<Metrics, 'counter'>): AuthCounts {
  const logins = metrics.counter('examhall_logins_total', 'Login attempts by outcome', ['outcome']);
  const refreshes = metrics.counter('examhall_refreshes_total', 'Refreshes of tokens by outcome', ['outcome']);
  const registrations = metrics.counter('examhall_registrations_total', 'Registrations by outcome', ['outcome']);
  for (const outcome of LOGINS) logins.add({ outcome }, 0);
  for (const outcome of REFRESHES) refreshes.add({ outcome }, 0);
  for (const outcome of REGISTRATIONS) registrations.add({ outcome }, 0);
  return {
    login: (outcome) => logins.add({ outcome }),
    refresh: (outcome) => refreshes.add({ outcome }),
    registration: (outcome) => registrations.add({ outcome }),
  };
}

/** Registers how many passwords are being hashed and how many wait, by kind of caller. */
export function hashMetrics(metrics: Pick<Metrics, 'gauge'>, hasher: Pick<Hasher, 'load'>): void {
  metrics.gauge('examhall_password_hashes_running', 'Passwords that are being hashed', ['kind'], (gauge) => {
    const load = hasher.load();
    for (const kind of LANE_KINDS) gauge.set(load[kind].running, { kind });
  });
  metrics.gauge('examhall_password_hashes_waiting', 'Passwords that wait for a hash', ['kind'], (gauge) => {
    const load = hasher.load();
    for (const kind of LANE_KINDS) gauge.set(load[kind].waiting, { kind });
  });
}
