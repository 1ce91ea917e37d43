import t from 'tap';
import { processorTimes } from '#testing/processor-time.ts';
import { isMinimalPreferred } from './preference.ts';

t.test('a caller gets a minimal reply if its first `return` preference is `minimal`', async (t) => {
  for (const [header, wanted] of [
    [undefined, false],
    ['', false],
    ['return=minimal', true],
    ['Return = Minimal', true],
    ['return="minimal"', true],
    ['respond-async, return=minimal; foo=1', true],
    ['return=representation, return=minimal', false],
    ['return=minimal, return=representation', true],
    ['return', false],
    ['returns=minimal', false],
    ['=minimal', false],
    ['handling=lenient', false],
    ['"return=minimal"', false],
  ] as const) {
    t.equal(isMinimalPreferred(header), wanted, String(header));
  }
});

// Before: one header of 16 KB held the front door for 0.7 s.
t.test('a header of spaces costs no more than one of letters', async (t) => {
  const [attack = 0, measure = 0] = await processorTimes([
    () => isMinimalPreferred(`return=${' '.repeat(16_000)}""`),
    () => isMinimalPreferred(`return=${'x'.repeat(16_002)}`),
  ]);
  t.ok(attack < 5 * measure + 50, `${attack} ms; letters ${measure} ms`);
});
