/**
 * How a reason ranks in a verdict.
 * - `stuck`: nothing changes until an operator acts.
 * - `waits`: it goes on by itself at a known time or event.
 * - `dropped`: it never happens, because a rule, a setting of the user or an end decided so.
 * - `runs`: a worker has it now, or takes it within a poll.
 */
export type Standing = 'stuck' | 'waits' | 'dropped' | 'runs';

/** Every reason why something did not happen or has not happened yet. The codes are stable: consoles and scripts branch on them. */
export const REASONS = {
  NO_WORKER: 'stuck',
  NOT_CONFIGURED: 'stuck',
  MISCONFIGURED: 'stuck',
  DEAD: 'stuck',
  WORKER_KILLED: 'stuck',
  POISONED: 'stuck',
  RECEIVER_REFUSED: 'stuck',
  ACCOUNT_SUSPENDED: 'stuck',
  WALLET_EMPTY: 'stuck',
  USAGE_LIMIT: 'stuck',
  CIRCUIT_OPEN: 'waits',
  OWNER_FAILED: 'waits',
  BACKS_OFF: 'waits',
  WAITS_FOR_GRADE: 'waits',
  WAITS_FOR_RELEASE: 'waits',
  RELEASE_AHEAD: 'waits',
  WORKER_LOST: 'waits',
  HELD: 'waits',
  NO_FREE_SLOT: 'waits',
  REDIS_UNAVAILABLE: 'waits',
  SCHEDULED: 'waits',
  LOGIN_LOCKED: 'waits',
  STAGING: 'waits',
  NO_PARENTS: 'dropped',
  MUTED: 'dropped',
  TYPE_DISABLED: 'dropped',
  ERASED: 'dropped',
  CHANNEL_DISABLED: 'dropped',
  NO_ADDRESS: 'dropped',
  NO_SUBSCRIPTION: 'dropped',
  DELETED: 'dropped',
  GONE: 'dropped',
  NEVER_NOTIFIED: 'dropped',
  VOIDED: 'dropped',
  REJECTED: 'dropped',
  FAILED: 'dropped',
  CANCELLED: 'dropped',
  ACCOUNT_DELETED: 'dropped',
  RUNNING: 'runs',
  DUE: 'runs',
} as const satisfies Readonly<Record<string, Standing>>;

export type ReasonCode = keyof typeof REASONS;

/** Everything that a trace can state as not having happened, as the beginning of a verdict. Consoles translate each of them. */
export type Effect =
  | 'not graded'
  | 'not graded completely'
  | 'not submitted'
  | 'handoff not applied'
  | 'results not visible'
  | 'results not released everywhere'
  | 'act of an examiner not finished'
  | 'no notice queued'
  | 'student not notified'
  | 'parents not notified'
  | 'owner not notified'
  | 'not notified'
  | 'not delivered over `log`'
  | 'not delivered over `webhook`'
  | 'not delivered over `email`'
  | 'not delivered over `webpush`'
  | 'job not finished'
  | 'job failed'
  | 'no questions generated'
  | 'generation not charged'
  | 'login refused'
  | 'account refused'
  | 'sweep not run'
  | 'fan-out not finished'
  | 'bulk act not finished'
  | 'not reported to analytics'
  | 'not reported to audit'
  | 'event not published'
  | 'event not sent to a subscriber';

/** A reason with its facts. `remedy` is the next step of an operator, or null if none is needed. */
export interface Reason {
  code: ReasonCode;
  text: string;
  remedy: string | null;
}

/** The part of a line that a verdict states: what has not happened, and why. Empty if nothing holds the object of the line. */
export interface Why {
  effect?: Effect;
  reason?: Reason;
}

/** Returns a reason. Texts begin in lower case, because a verdict puts its subject before them. */
export function reason(code: ReasonCode, text: string, remedy: string | null = null): Reason {
  return { code, text, remedy };
}

const SUPPRESSED = {
  MUTED: 'the user has muted notifications',
  TYPE_DISABLED: 'the user has disabled this type',
  ERASED: 'the person is erased',
  CHANNEL_DISABLED: 'the user has turned this channel off',
  NO_ADDRESS: 'the profile service knows no e-mail address of the user',
  NO_SUBSCRIPTION: 'the user has registered no browser for push messages',
  DELETED: 'the user has deleted the notification',
  GONE: 'the notification does not exist any more',
} as const;

/** Returns the reason of a suppressed notification or delivery. An unknown word comes from a newer version. */
export function suppressionReason(word: string): Reason {
  if (!Object.hasOwn(SUPPRESSED, word)) return reason('REJECTED', `suppressed: ${word}`);
  const remedy = word === 'NO_ADDRESS' ? 'add the address there' : null;
  return reason(word as keyof typeof SUPPRESSED, SUPPRESSED[word as keyof typeof SUPPRESSED], remedy);
}

/** Returns the reason of a refused generation by the code of its rejection. */
export function refusalReason(code: string): Reason {
  switch (code) {
    case 'AI_WALLET_INSUFFICIENT':
      return reason('WALLET_EMPTY', 'the wallet of the organization does not cover the price', 'top up the wallet');
    case 'AI_USAGE_LIMIT_EXCEEDED':
      return reason('USAGE_LIMIT', 'a usage limit of the organization is reached', 'raise the limit, or wait');
    case 'AI_OWNER_UNAVAILABLE':
      return reason('OWNER_FAILED', 'the usage or the wallet service did not answer', 'check both services');
    case 'AI_PROVIDER_CIRCUIT_OPEN':
      return reason('CIRCUIT_OPEN', 'the circuit of the model provider is open', 'check the provider');
    default:
      return reason('FAILED', `the request was refused with ${code}`);
  }
}

/** Returns a time span in words: `40 s`, `12 min`, `3 h`, `2 d`. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}
