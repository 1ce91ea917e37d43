import fc from 'fast-check';
import t from 'tap';
import { coverOf } from './cover.ts';

/** Files by name, each with its shapes as letters. */
function shapesOf(files: Readonly<Record<string, string>>): ReadonlyMap<string, ReadonlySet<string>> {
  return new Map(Object.entries(files).map(([file, letters]) => [file, new Set(letters)]));
}

t.test('the cheaper files replace a dear one all of whose statements they send', async (t) => {
  const costs: Record<string, number> = { kills: 100, claims: 3, settles: 2, own: 50, spare: 1 };
  const shapes = shapesOf({ kills: 'abcd', claims: 'abx', settles: 'cd', own: 'az', spare: 'x' });
  const cover = coverOf(shapes, (file) => costs[file] ?? 0);
  t.strictSame([...cover].sort(), ['claims', 'own', 'settles']);
});

t.test('a file without statements is left out, and one with a statement of its own never is', async (t) => {
  t.strictSame([...coverOf(shapesOf({ none: '', one: 'a', both: 'ab' }), () => 1)], ['both']);
  t.strictSame([...coverOf(new Map(), () => 1)], []);
});

t.test('a cover has every shape, and no file of it could be left out', async (t) => {
  const files = fc.dictionary(fc.stringMatching(/^[a-z]{1,3}$/), fc.stringMatching(/^[a-h]{0,5}$/), { maxKeys: 12 });
  const property = fc.property(files, fc.nat(1_000), (letters, seed) => {
    const shapes = shapesOf(letters);
    const cover = coverOf(shapes, (file) => 1 + ((file.charCodeAt(0) * 7 + file.length * 13 + seed) % 50));
    const sent = (names: Iterable<string>) => new Set([...names].flatMap((name) => [...(shapes.get(name) ?? [])]));
    const all = sent(shapes.keys());
    if (sent(cover).size !== all.size) return false;
    return [...cover].every((file) => sent([...cover].filter((other) => other !== file)).size < all.size);
  });
  fc.assert(property);
  t.pass();
});
