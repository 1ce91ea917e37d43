import t from 'tap';
import { readAhead } from './read-ahead.ts';

t.test('parts are read in their order, and so many ahead of those that are taken', async (t) => {
  const asked: string[] = [];
  const take = readAhead(['a', 'b', 'c', 'd'], 2, async (key) => {
    asked.push(key);
    return key.toUpperCase();
  });
  t.strictSame(asked, [], 'nothing before it is wanted');
  t.equal(await take(0), 'A');
  t.strictSame(asked, ['a', 'b', 'c']);
  t.equal(await take(1), 'B');
  t.strictSame(asked, ['a', 'b', 'c', 'd']);
  t.strictSame(await Promise.all([take(2), take(3)]), ['C', 'D']);
  t.strictSame(asked, ['a', 'b', 'c', 'd'], 'each once');
  await t.rejects(take(3), { message: 'part 3 of 4 was taken already' });
  await t.rejects(take(4), { message: 'part 4 of 4 was taken already' });
});

t.test('a failed read is told to whoever takes the part, and to nobody else', async (t) => {
  const take = readAhead([1, 2, 3], 1, async (key) => {
    if (key > 1) throw new Error(`no ${key}`);
    return key;
  });
  t.equal(await take(0), 1);
  await new Promise((resolve) => setImmediate(resolve));
  await t.rejects(take(1), { message: 'no 2' });
});
