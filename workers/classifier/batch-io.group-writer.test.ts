import t from 'tap';
import { gate } from '#testing/until.ts';
import { openGroupWriter } from './batch-io.ts';

/** Opens a writer whose groups are written when the test opens their gates. */
function scene(limit: number) {
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
  const { writer, groups, gates } = scene(5);
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
  const { writer, groups, gates } = scene(2);
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
  const { writer, groups, gates } = scene(5);
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
