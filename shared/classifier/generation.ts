import type { TaskResult, TokenUsage } from '#shared/classifier/tasks/task.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { DAY, SECOND } from '#shared/kernel/time.ts';

/** How long an answer is given again, paid for or waiting to be (ms). */
export const REPLAY_MS = DAY;
/** What the next request of the same kind is told to wait where another one is being answered, or the owners are away (s). */
export const COME_BACK_SECONDS = 3;

/**
 * A generation that is to be paid for, and its replay. MAKING: somebody asks the model, or died of it; nothing is owed. PENDING: the
 * answer is stored, with what it costs and the keys to charge it by. SETTLED: both owners have it. Only MAKING rows ever go.
 */
export type Generation = UnmadeGeneration | OwedGeneration | SettledGeneration;

interface UnmadeGeneration extends GenerationRow {
  state: 'MAKING';
  result: null;
  charge: null;
  commandId: null;
  replayUntil: null;
  settledAt: null;
}

export interface OwedGeneration extends MadeGeneration {
  state: 'PENDING';
  settledAt: null;
}

export interface SettledGeneration extends MadeGeneration {
  state: 'SETTLED';
  settledAt: Date;
}

/** A generation that has its answer. */
interface MadeGeneration extends GenerationRow {
  /** JSON text of the result envelope, written by `resultText` and read by `resultOf`. */
  result: string;
  charge: Charge;
  /** The command of the settlement worker. */
  commandId: string;
  /** Until when the answer is given again, and until when it is tried to be paid for. */
  replayUntil: Date;
}

interface GenerationRow {
  /** The preview's id; the owners' keys derive from it. */
  _id: string;
  /** What equal requests share. */
  key: string;
  /** One more each time that an equal request costs anew. Unique with the key. */
  epoch: number;
  organizationId: string;
  actor: { id: string; role: string };
  /** Whoever works on the row has it until then; each holder has a fence of its own. */
  leaseUntil: Date;
  /** The kind of its newest holder. */
  heldBy: GenerationHolder;
  fence: number;
  /** How the newest holder gave up, for those who waited for it. */
  failure: GenerationFailure | null;
  /** The usage service has it. */
  usageConsumed: boolean;
  createdAt: Date;
  /** When it was last taken. A row without an answer goes some time after it; null once there is one. */
  idleSince: Date | null;
}

/** A front door that answers a request, or the worker that settles what front doors could not. */
export type GenerationHolder = 'door' | 'worker';

/** Returns `result` as it is stored; `resultOf` reads it. */
export function resultText(result: TaskResult<'generate'>): string {
  return JSON.stringify(result);
}

export function resultOf({ result }: Pick<MadeGeneration, 'result'>): TaskResult<'generate'> {
  return JSON.parse(result) as TaskResult<'generate'>;
}

/** How a holder gave up. */
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

/** What is to be done for a request, given the newest row of its key. */
type NextStep =
  | { kind: 'open'; epoch: number }
  | { kind: 'take'; row: Generation }
  | { kind: 'wait'; row: Generation }
  | { kind: 'replay'; row: SettledGeneration }
  | { kind: 'refuse'; rejection: Rejection };

/**
 * `waitedFor` names the holder that this very request has waited for: if that one gave up, all who waited get its answer, or a provider
 * that fails would be asked once for each of them.
 */
export function nextStep(
  row: Generation | null,
  now: number,
  waitedFor: { id: string; fence: number } | null,
): NextStep {
  if (row === null) return { kind: 'open', epoch: 1 };
  if (row.replayUntil !== null && row.replayUntil.getTime() <= now) return { kind: 'open', epoch: row.epoch + 1 };
  if (row.state === 'SETTLED') return { kind: 'replay', row };
  const { failure } = row;
  if (failure !== null && waitedFor?.id === row._id && waitedFor.fence === failure.fence) {
    return { kind: 'refuse', rejection: rejectionOf(failure) };
  }
  return row.leaseUntil.getTime() > now ? { kind: 'wait', row } : { kind: 'take', row };
}

/** The owners have not taken it: the answer stays stored, and unseen. */
export function settlementPending(previewId: string): Rejection {
  return { rejected: 'AI_SETTLEMENT_PENDING', data: { previewId }, retryAfter: COME_BACK_SECONDS };
}

export const SETTLEMENT_BACKOFF = { baseMs: 3 * SECOND, capMs: 600 * SECOND };
/** Tries of a day: some ten until the rests are ten minutes long, then six in an hour, jitter taken off; the day ends it, not the count. */
export const SETTLEMENT_ATTEMPTS = 250;

/** The keys under which the owners take a charge once; whoever settles it, and however often, names the same. */
export function ownerKeysOf(previewId: string): { usage: string; debit: string } {
  return { usage: `ai-generation:${previewId}:usage`, debit: `ai-generation:${previewId}:debit` };
}

/** What a generation costs, in whole credits and tokens. */
export interface Charge {
  credits: number;
  tokens: number;
}

/** Price of a generated question, and what it is thought to use before anybody has counted. */
const CREDITS_PER_QUESTION = 3;
const TOKENS_PER_QUESTION = 1_000;

/** The most that a generation of so many questions is held to cost before it is made. */
export function estimateOf(count: number): Charge {
  return { credits: CREDITS_PER_QUESTION * count, tokens: TOKENS_PER_QUESTION * count };
}

/** What it does cost: the questions that came, and the tokens that the provider counted, else the estimate. */
export function chargeOf(made: { asked: number; returned: number; usage: TokenUsage }): Charge {
  const { inputTokens, outputTokens } = made.usage;
  const counted = inputTokens === null || outputTokens === null ? Number.NaN : inputTokens + outputTokens;
  const isCount = Number.isSafeInteger(counted) && counted >= 0;
  return {
    credits: CREDITS_PER_QUESTION * Math.min(made.returned, made.asked),
    tokens: isCount ? counted : estimateOf(made.asked).tokens,
  };
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

/** The same charge for each counter that it touches. */
export function amountsOf({ credits, tokens }: Charge): { counter: Counter; amount: number }[] {
  return [
    ...CREDIT_COUNTERS.map((counter) => ({ counter, amount: credits })),
    { counter: TOKEN_COUNTER, amount: tokens },
  ];
}

/** What one generation may still cost its organization. */
export interface Hold extends Charge {
  previewId: string;
  /** Of the generation's holder that put it there. */
  fence: number;
  /** A hold of a process that died is over then. */
  until: Date;
}

/** Everything that an organization has in flight, in the order in which it was held; `_id` is the organization's. */
export interface OrganizationHolds {
  _id: string;
  holds: Hold[];
}

/** What stands before a generation's own hold: all of it, where that one is not there. */
export function heldBefore({ holds }: Pick<OrganizationHolds, 'holds'>, previewId: string): Charge {
  const place = holds.findIndex((hold) => hold.previewId === previewId);
  return sumOfCharges(place === -1 ? holds : holds.slice(0, place));
}
