import t from 'tap';
import { readAhead } from './batch-io.ts';

t.test('readAhead reads parts in groups, one group ahead of the current one', async (t) => {
  const asked: string[] = [];
  const take = readAhead(['a', 'b', 'c', 'd', 'e'], 2, async (keys) => {
    asked.push(keys.join(''));
    return keys.map((key) => key.toUpperCase());
  });
  t.strictSame(asked, [], 'nothing before it is wanted');
  t.equal(await take(0), 'A');
  t.strictSame(asked, ['ab', 'cd']);
  t.equal(await take(1), 'B');
  t.strictSame(asked, ['ab', 'cd']);
  t.strictSame(await Promise.all([take(2), take(3), take(4)]), ['C', 'D', 'E']);
  t.strictSame(asked, ['ab', 'cd', 'e'], 'each once');
});

t.test('a failed read rejects only for callers that take a part of its group', async (t) => {
  const take = readAhead([1, 2, 3], 1, async ([key]) => {
    if (key === 2) throw new Error('no 2');
    return [key];
  });
  t.equal(await take(0), 1);
  await new Promise((resolve) => setImmediate(resolve));
  await t.rejects(take(1), { message: 'no 2' });
});
