import fc from 'fast-check';
import t from 'tap';
import { amountsOf, chargeOf, estimateOf, ownerKeysOf } from './generation.ts';

const COUNT = fc.integer({ min: 1, max: 20 });

t.test('the estimate that is held is never below the price in credits', async (t) => {
  t.strictSame(estimateOf(4), { credits: 12, tokens: 4_000 });
  fc.assert(
    fc.property(COUNT, fc.integer({ min: 1, max: 100 }), (asked, returned) => {
      const charge = chargeOf({ asked, returned, usage: { inputTokens: null, outputTokens: null } });
      return charge.credits <= estimateOf(asked).credits && charge.credits === 3 * Math.min(asked, returned);
    }),
  );
});

t.test('tokens are the provider’s count, otherwise the estimate', async (t) => {
  const tokens = (inputTokens: number | null, outputTokens: number | null) =>
    chargeOf({ asked: 2, returned: 1, usage: { inputTokens, outputTokens } }).tokens;
  t.equal(tokens(10, 20), 30);
  t.equal(tokens(0, 0), 0, 'zero is a count');
  for (const [input, output] of [
    [null, 20],
    [10, null],
    [null, null],
    [-5, 2],
    [-5, 20],
    [20, -5],
    [1.5, 1.5],
    [Number.NaN, 1],
    [1.5, 2],
    [Number.MAX_SAFE_INTEGER, 2],
  ] as const) {
    t.equal(tokens(input, output), 2_000, `${input}, ${output}`);
  }
});

t.test(
  'whatever a model answers and a provider counts, the price is three credits a question and whole tokens',
  async () => {
    const count = fc.oneof(
      fc.nat(1e6),
      fc.constant(null),
      fc.double(),
      fc.integer(),
      fc.constantFrom(Number.MAX_SAFE_INTEGER, Number.MAX_VALUE, -0),
    );
    fc.assert(
      fc.property(COUNT, fc.nat(100), count, count, (asked, returned, inputTokens, outputTokens) => {
        const { credits, tokens } = chargeOf({ asked, returned, usage: { inputTokens, outputTokens } });
        const parts = [inputTokens, outputTokens].filter((part) => Number.isSafeInteger(part) && Number(part) >= 0);
        const sum = Number(inputTokens) + Number(outputTokens);
        const isCounted = parts.length === 2 && Number.isSafeInteger(sum);
        return (
          credits === 3 * Math.min(asked, returned) &&
          credits <= estimateOf(asked).credits &&
          tokens === (isCounted ? sum : 1_000 * asked)
        );
      }),
    );
  },
);

t.test('a charge counts on three credit counters and one token counter', async (t) => {
  t.strictSame(amountsOf({ credits: 9, tokens: 50 }), [
    { counter: 'credits_monthly', amount: 9 },
    { counter: 'credits_weekly', amount: 9 },
    { counter: 'credits_hourly', amount: 9 },
    { counter: 'tokens_monthly', amount: 50 },
  ]);
});

t.test('keys of different previews and different owners differ', async () => {
  fc.assert(
    fc.property(fc.uuid(), fc.uuid(), (a, b) => {
      const keys = [a, b].flatMap((id) => Object.values(ownerKeysOf(id)));
      return new Set(keys).size === (a === b ? 2 : 4);
    }),
  );
});
