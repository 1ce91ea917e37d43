import fc from 'fast-check';
import t from 'tap';
import { amountsOf, chargeOf, estimateOf, ownerKeysOf } from './generation.ts';

const COUNT = fc.integer({ min: 1, max: 20 });

t.test('what is held beforehand is the most that it can cost', async (t) => {
  t.strictSame(estimateOf(4), { credits: 12, tokens: 4_000 });
  fc.assert(
    fc.property(COUNT, fc.integer({ min: 1, max: 100 }), (asked, returned) => {
      const charge = chargeOf({ asked, returned, usage: { inputTokens: null, outputTokens: null } });
      return charge.credits <= estimateOf(asked).credits && charge.credits === 3 * Math.min(asked, returned);
    }),
  );
});

t.test('tokens are those that the provider counted, else the estimate', async (t) => {
  const tokens = (inputTokens: number | null, outputTokens: number | null) =>
    chargeOf({ asked: 2, returned: 1, usage: { inputTokens, outputTokens } }).tokens;
  t.equal(tokens(10, 20), 30);
  t.equal(tokens(0, 0), 0, 'zero is a count');
  for (const [input, output] of [
    [null, 20],
    [10, null],
    [null, null],
    [-5, 2],
    [1.5, 2],
    [Number.MAX_SAFE_INTEGER, 2],
  ] as const) {
    t.equal(tokens(input, output), 2_000, `${input}, ${output}`);
  }
});

t.test('three counters of credits and one of tokens', async (t) => {
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
