import type { TaskResult } from '#shared/classifier/tasks/envelope.ts';
import type { TokenUsage } from '#shared/classifier/tasks/task.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { DAY, SECOND } from '#shared/kernel/time.ts';

/** Time for which an answer is replayed, whether it is paid for or still owed (ms). */
export const REPLAY_MS = DAY;
/** Retry-After of a request that must wait because an equal one is in progress or the owners are unavailable (s). */
export const RETRY_AFTER_SECONDS = 3;

/**
 * A paid generation and its replay. MAKING: a front door holds the lease of the row and is calling the model, or died doing so; nothing
 * is owed. PENDING: the answer is stored with its price and the keys to charge it by. Only the run that holds the lease of its settlement
 * command charges it. SETTLED: both owners have charged it. Only MAKING rows are ever deleted. A PENDING row whose day ended is closed
 * (`closed`).
 */
export type Generation = UnansweredGeneration | OwedGeneration | SettledGeneration;

interface UnansweredGeneration extends GenerationRow {
  state: 'MAKING';
  closed: null;
  result: null;
  charge: null;
  commandId: null;
  replayUntil: null;
  settledAt: null;
}

/** A generation with its answer, paid for or not. */
export type AnsweredGeneration = OwedGeneration | SettledGeneration;

export interface OwedGeneration extends AnsweredRow {
  state: 'PENDING';
  settledAt: null;
}

export interface SettledGeneration extends AnsweredRow {
  state: 'SETTLED';
  settledAt: Date;
}

interface AnsweredRow extends GenerationRow {
  /** JSON text of the result envelope, written by `resultText` and read by `resultOf`. */
  result: string;
  charge: Charge;
  /** The settlement command, which a worker or a front door runs. */
  commandId: string;
  /** End of replay: until then the answer is returned again and its settlement is attempted. */
  replayUntil: Date;
}

interface GenerationRow {
  /** The preview's id; the owners' idempotency keys derive from it. */
  _id: string;
  /** Key that equal requests share. */
  key: string;
  /** Incremented each time an equal request is charged anew. Unique together with the key. */
  epoch: number;
  organizationId: string;
  actor: { id: string; role: string };
  /** Lease of the front door that makes the answer; each holder has its own fence. */
  leaseUntil: Date;
  fence: number;
  /** Failure of the newest holder, returned to the requests that waited for it. */
  failure: GenerationFailure | null;
  /** true = the usage service has counted the charge. */
  usageConsumed: boolean;
  /** Set on an unpaid answer that no request may charge any longer; null on any other row. */
  closed: ClosedAs | null;
  createdAt: Date;
  /** Time of the last claim. A row without an answer expires some time after it; null once there is an answer. */
  idleSince: Date | null;
}

/**
 * Reason why an unpaid answer is closed. EXPIRED: its day ended; only a settlement that an operator has replayed may charge it.
 * SUPERSEDED: an equal request was given a newer epoch after that, so no request returns this answer. Charging it requires the
 * operator's explicit consent.
 */
export type ClosedAs = 'EXPIRED' | 'SUPERSEDED';

/** Returns `result` as it is stored; `resultOf` reads it. */
export function resultText(result: TaskResult<'generate'>): string {
  return JSON.stringify(result);
}

export function resultOf({ result }: Pick<AnsweredRow, 'result'>): TaskResult<'generate'> {
  return JSON.parse(result) as TaskResult<'generate'>;
}

/** Failure of a holder. */
interface GenerationFailure {
  fence: number;
  /** JSON text, written by `failureOf` and read by `rejectionOf`. */
  rejection: string;
}

/** Returns a holder's rejection as it is stored; `rejectionOf` reads it. */
export function failureOf(fence: number, rejection: Rejection): GenerationFailure {
  return { fence, rejection: JSON.stringify(rejection) };
}

function rejectionOf({ rejection }: GenerationFailure): Rejection {
  return JSON.parse(rejection) as Rejection;
}

/** Next step of a request, given the newest row of its key. */
type NextStep =
  /** Inserts the row of this epoch, and closes the row before it. */
  | { kind: 'open'; epoch: number; after: AnsweredGeneration | null }
  | { kind: 'acquire'; row: Generation }
  | { kind: 'wait'; row: Generation }
  /** Has the settlement command run, and waits for it. */
  | { kind: 'settle'; row: OwedGeneration }
  | { kind: 'replay'; row: SettledGeneration }
  | { kind: 'refuse'; rejection: Rejection };

/** Input of `nextStep` beside the row. */
interface StepContext {
  /** Current time of MongoDB's clock (Unix ms). */
  now: number;
  /**
   * The holder that this request has waited for. If that holder failed, all requests that waited for it return its failure.
   * Otherwise each of them would call a failing provider in turn.
   */
  waitedFor: { id: string; fence: number } | null;
}

/**
 * Returns the next step of a request. An answer is never made again within its day, whatever the lease of its row. An answer whose day
 * is over opens the next epoch; MongoDB refuses that while a run is charging the answer, which the request then returns.
 */
export function nextStep(row: Generation | null, { now, waitedFor }: StepContext): NextStep {
  if (row === null) return { kind: 'open', epoch: 1, after: null };
  if (row.state !== 'MAKING') {
    if (isDayOver(row, now)) return { kind: 'open', epoch: row.epoch + 1, after: row };
    return row.state === 'SETTLED' ? { kind: 'replay', row } : { kind: 'settle', row };
  }
  const { failure } = row;
  if (failure !== null && waitedFor?.id === row._id && waitedFor.fence === failure.fence) {
    return { kind: 'refuse', rejection: rejectionOf(failure) };
  }
  return { kind: row.leaseUntil.getTime() > now ? 'wait' : 'acquire', row };
}

function isDayOver({ state, closed, replayUntil }: AnsweredGeneration, now: number): boolean {
  return (state === 'PENDING' && closed != null) || replayUntil.getTime() <= now;
}

/**
 * Returns the rejection of an answer that the owners have not charged yet: the answer remains stored, and the client does not see
 * it.
 */
export function settlementPending(previewId: string): Rejection {
  return { rejected: 'AI_SETTLEMENT_PENDING', data: { previewId }, retryAfter: RETRY_AFTER_SECONDS };
}

export const SETTLEMENT_BACKOFF = { baseMs: 3 * SECOND, capMs: 600 * SECOND };
/**
 * Maximum settlement attempts. About 150 fit into a day: ten until the backoff reaches ten minutes, then six an hour. The end of
 * the day stops them before this count does.
 */
export const SETTLEMENT_ATTEMPTS = 250;

/** Returns the idempotency keys of a charge. Every settler uses the same keys, so the owners charge once. */
export function ownerKeysOf(previewId: string): { usage: string; debit: string } {
  return { usage: `ai-generation:${previewId}:usage`, debit: `ai-generation:${previewId}:debit` };
}

/** Price of a generation, in whole credits and tokens. */
export interface Charge {
  credits: number;
  tokens: number;
}

/** Price of a generated question, and its estimated tokens until the provider has counted them. */
const CREDITS_PER_QUESTION = 3;
const TOKENS_PER_QUESTION = 1_000;

/**
 * Returns the estimate that is held before a generation of this many questions is made. Its credits are the highest possible price.
 */
export function estimateOf(count: number): Charge {
  return { credits: CREDITS_PER_QUESTION * count, tokens: TOKENS_PER_QUESTION * count };
}

/**
 * Returns the price of an answer: credits for the returned questions, at most for those requested, and the tokens that the provider
 * counted. If a token count is missing or invalid, the estimate applies.
 */
export function chargeOf(answer: { asked: number; returned: number; usage: TokenUsage }): Charge {
  const { inputTokens, outputTokens } = answer.usage;
  const counted = isCount(inputTokens) && isCount(outputTokens) ? inputTokens + outputTokens : null;
  return {
    credits: CREDITS_PER_QUESTION * Math.min(answer.returned, answer.asked),
    tokens: isCount(counted) ? counted : estimateOf(answer.asked).tokens,
  };
}

function isCount(value: number | null): value is number {
  return value !== null && Number.isSafeInteger(value) && value >= 0;
}

export function sumOfCharges(charges: readonly Charge[]): Charge {
  return charges.reduce(
    (sum, { credits, tokens }) => ({ credits: sum.credits + credits, tokens: sum.tokens + tokens }),
    {
      credits: 0,
      tokens: 0,
    },
  );
}

const CREDIT_COUNTERS = ['credits_monthly', 'credits_weekly', 'credits_hourly'] as const;
const TOKEN_COUNTER = 'tokens_monthly';
export const COUNTERS = [...CREDIT_COUNTERS, TOKEN_COUNTER] as const;
export type Counter = (typeof COUNTERS)[number];

/** Returns the amount of a charge for each usage counter. */
export function amountsOf({ credits, tokens }: Charge): { counter: Counter; amount: number }[] {
  return [
    ...CREDIT_COUNTERS.map((counter) => ({ counter, amount: credits })),
    { counter: TOKEN_COUNTER, amount: tokens },
  ];
}

/** Amount that one generation may still cost its organization. */
export interface Hold extends Charge {
  previewId: string;
  /** Fence of the holder that added the hold. */
  fence: number;
  /** The hold expires then, if its process died. */
  until: Date;
  /** true = the usage service has counted it, and only the balance still has to cover it; absent = not counted yet. */
  usageConsumed?: boolean;
}

/** All holds of an organization, in the order in which they were added; `_id` is the organization's id. */
export interface OrganizationHolds {
  _id: string;
  holds: Hold[];
}

/** Sums of holds, for each owner that checks them. */
export interface HeldAmounts {
  /** Credits that the wallet has not debited yet. */
  balance: number;
  /** Credits and tokens that the usage service has not counted yet. */
  usage: Charge;
}

/** Returns the sums of the holds ahead of a generation's own, or of all holds if it has none. */
export function holdsAhead({ holds }: Pick<OrganizationHolds, 'holds'>, previewId: string): HeldAmounts {
  const position = holds.findIndex((hold) => hold.previewId === previewId);
  const ahead = position === -1 ? holds : holds.slice(0, position);
  const uncounted = ahead.filter(({ usageConsumed }) => usageConsumed !== true);
  return { balance: sumOfCharges(ahead).credits, usage: sumOfCharges(uncounted) };
}
