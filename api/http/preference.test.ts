import t from 'tap';
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
