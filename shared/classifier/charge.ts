import type { TokenUsage } from './model-task.ts';

/** Price of a generated question, and what it is thought to use before anybody has counted. */
const CREDITS_PER_QUESTION = 3;
const TOKENS_PER_QUESTION = 1_000;

const CREDIT_COUNTERS = ['credits_monthly', 'credits_weekly', 'credits_hourly'] as const;
const TOKEN_COUNTER = 'tokens_monthly';
export const COUNTERS = [...CREDIT_COUNTERS, TOKEN_COUNTER] as const;
export type Counter = (typeof COUNTERS)[number];

/** What a generation costs, in whole credits and tokens. */
export interface Charge {
  credits: number;
  tokens: number;
}

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

/** The same charge for each counter that it touches. */
export function amountsOf({ credits, tokens }: Charge): { counter: Counter; amount: number }[] {
  return [
    ...CREDIT_COUNTERS.map((counter) => ({ counter, amount: credits })),
    { counter: TOKEN_COUNTER, amount: tokens },
  ];
}

/** The keys under which the owners take a charge once; whoever settles it, and however often, names the same. */
export function ownerKeysOf(previewId: string): { usage: string; debit: string } {
  return { usage: `ai-generation:${previewId}:usage`, debit: `ai-generation:${previewId}:debit` };
}
