import t from 'tap';
import { gate } from '#testing/until.ts';
import { openGroupWriter, readAhead } from './batch-io.ts';

/** Opens a writer whose groups are written when the test opens their gates. */
function openGatedWriter(limit: number) {
  const groups: number[][] = [];
  const gates = Array.from({ length: 4 }, gate);
  const failures: unknown[] = [];
  let atOnce = 0;
  const writer = openGroupWriter<number>(
    async (parts) => {
      atOnce += 1;
      t.equal(atOnce, 1, 'one group at a time');
      groups.push([...parts]);
      await gates[groups.length - 1]?.opened;
      atOnce -= 1;
    },
    { limit, failed: (error) => failures.push(error) },
  );
  return { writer, groups, gates, failures };
}

/** Returns whether a promise has settled, after all work of this turn of the event loop. */
async function hasSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  promise.then(
    () => (settled = true),
    () => (settled = true),
  );
  await new Promise(setImmediate);
  return settled;
}

t.test('parts finished while a group is written go into the next group, in order and once', async (t) => {
  const { writer, groups, gates } = openGatedWriter(5);
  const early = [1, 2, 3, 4, 5].map((part) => writer.write(part));
  await Promise.all(early);
  await new Promise(setImmediate);
  t.strictSame(groups, [[1, 2, 3, 4, 5]]);
  const late = [6, 7].map((part) => writer.write(part));
  for (const { open } of gates) open();
  await Promise.all(late);
  await writer.flush();
  t.strictSame(groups, [
    [1, 2, 3, 4, 5],
    [6, 7],
  ]);
});

t.test('a part waits for room while more than the limit are unwritten', async (t) => {
  const { writer, groups, gates } = openGatedWriter(2);
  await Promise.all([writer.write(1), writer.write(2)]);
  const third = writer.write(3);
  t.notOk(await hasSettled(third));
  gates[0]?.open();
  await third;
  t.strictSame(groups[0], [1, 2]);
  for (const { open } of gates) open();
  await writer.flush();
  t.strictSame(groups, [[1, 2], [3]]);
});

t.test('a group below the limit is written without a flush', async (t) => {
  const { writer, groups, gates } = openGatedWriter(5);
  for (const { open } of gates) open();
  await writer.write(1);
  while (groups.length === 0) await new Promise(setImmediate);
  t.strictSame(groups, [[1]]);
});

t.test('after a failed write the group writer writes nothing more, and each write and flush rejects', async (t) => {
  let calls = 0;
  const failures: unknown[] = [];
  const writer = openGroupWriter<number>(
    async () => {
      calls += 1;
      throw new Error('lost');
    },
    { limit: 2, failed: (error) => failures.push(error) },
  );
  await writer.write(1);
  await t.rejects(writer.flush(), { message: 'lost' });
  t.match(failures, [{ message: 'lost' }]);
  await t.rejects(writer.write(2), { message: 'lost' });
  await t.rejects(writer.write(3), { message: 'lost' });
  await t.rejects(writer.flush(), { message: 'lost' });
  t.equal(calls, 1);
  t.equal(failures.length, 1);
});

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
