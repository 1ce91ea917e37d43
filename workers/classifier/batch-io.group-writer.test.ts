import t from 'tap';
import { gate } from '#testing/until.ts';
import { openGroupWriter } from './batch-io.ts';

t.test('parts finished while a group is written go into the next group, in order and once', async (t) => {
  const groups: number[][] = [];
  const first = gate();
  let atOnce = 0;
  const writer = openGroupWriter<number>(async (parts) => {
    atOnce += 1;
    t.equal(atOnce, 1, 'one group at a time');
    groups.push([...parts]);
    if (groups.length === 1) await first.opened;
    atOnce -= 1;
  });
  const early = [writer.write(1), writer.write(2)];
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  const late = [3, 4, 5].map((part) => writer.write(part));
  first.open();
  await Promise.all([...early, ...late]);
  t.strictSame(groups, [
    [1, 2],
    [3, 4, 5],
  ]);
});

t.test('after a failed write the group writer writes nothing more, and each write rejects', async (t) => {
  let calls = 0;
  const writer = openGroupWriter<number>(async () => {
    calls += 1;
    throw new Error('lost');
  });
  await t.rejects(writer.write(1), { message: 'lost' });
  await t.rejects(writer.write(2), { message: 'lost' });
  t.equal(calls, 1);
});
