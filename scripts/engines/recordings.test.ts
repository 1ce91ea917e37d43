import t from 'tap';
import { type Recording, withRun } from './recordings.ts';
import { lineOf, unknownUses, usesIn } from './uses.ts';

const BEFORE: Recording = {
  version: '1',
  suite: { passed: 9, failed: 0 },
  features: { 'command find': ['a.ts'], 'query $gt': ['a.ts', 'b.ts'] },
};
const usesOf = (...lines: string[]) => usesIn(lines);

t.test('usesIn merges the records of several processes and ignores an incomplete line', async (t) => {
  const uses = usesOf(
    lineOf('query $gt', 'b.ts') + lineOf('query $gt', 'a.ts'),
    lineOf('query $gt', 'b.ts'),
    'query $l',
  );
  t.strictSame(uses, new Map([['query $gt', new Set(['b.ts', 'a.ts'])]]));
});

t.test('a whole run replaces the recording of an engine, sorted by kind and name', async (t) => {
  const uses = usesOf(lineOf('query $lt', 'b.ts'), lineOf('query $gt', 'b.ts'), lineOf('command find', 'a.ts'));
  const after = withRun(BEFORE, { version: '2', suite: { passed: 10, failed: 1 }, uses });
  t.strictSame(after, {
    version: '2',
    suite: { passed: 10, failed: 1 },
    features: { 'command find': ['a.ts'], 'query $gt': ['b.ts'], 'query $lt': ['b.ts'] },
  });
  t.strictSame(Object.keys(after.features), ['command find', 'query $gt', 'query $lt']);
});

t.test('a partial run adds to the recording of an engine and clears its totals', async (t) => {
  const added = withRun(BEFORE, { version: '1', suite: null, uses: usesOf(lineOf('command find', 'c.ts')) });
  t.strictSame(added, { ...BEFORE, suite: null, features: { ...BEFORE.features, 'command find': ['a.ts', 'c.ts'] } });
  const known = withRun(BEFORE, { version: '1', suite: null, uses: usesOf(lineOf('query $gt', 'a.ts')) });
  t.equal(known, BEFORE, 'a run without new features changes nothing');
  const other = withRun(BEFORE, { version: '2', suite: null, uses: usesOf() });
  t.equal(other.suite, null, 'another version of the engine clears the totals');
});

t.test('unknownUses names a feature that docs/engines.md does not list, with its files', async (t) => {
  const uses = usesOf(lineOf('query $near', 'b.ts'), lineOf('query $near', 'a.ts'), lineOf('command find', 'a.ts'));
  t.strictSame(unknownUses(uses, { 'command find': 'a cursor' }), ['query $near in a.ts, b.ts']);
  t.strictSame(unknownUses(uses, { 'command find': 'a cursor', 'query $near': 'close' }), []);
});
