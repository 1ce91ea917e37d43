import t from 'tap';
import { inGroups } from './in-groups.ts';

/** Groups whose runs end when the test lets them. */
function watchedGroups(max: number) {
  const groups: number[][] = [];
  const ends: PromiseWithResolvers<void>[] = [];
  const double = inGroups(max, async (inputs: readonly number[]) => {
    const end = Promise.withResolvers<void>();
    groups.push([...inputs]);
    ends.push(end);
    await end.promise;
    return inputs.map((input) => 2 * input);
  });
  return { groups, ends, double };
}

const turns = async () => {
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
};

t.test('calls of one turn share a group, and calls during its run share the next one', async (t) => {
  const { groups, ends, double } = watchedGroups(10);
  const first = [double(1), double(2)];
  await turns();
  t.strictSame(groups, [[1, 2]]);
  const next = [double(3), double(4), double(5)];
  await turns();
  t.equal(groups.length, 1, 'one group runs at a time');
  ends[0]?.resolve();
  t.strictSame(await Promise.all(first), [2, 4], 'each call gets its own output');
  await turns();
  t.strictSame(groups[1], [3, 4, 5]);
  ends[1]?.resolve();
  t.strictSame(await Promise.all(next), [6, 8, 10]);
});

t.test('a group has at most the given number of inputs', async (t) => {
  const { groups, ends, double } = watchedGroups(2);
  const calls = [double(1), double(2), double(3)];
  await turns();
  t.strictSame(groups, [[1, 2]]);
  ends[0]?.resolve();
  await turns();
  t.strictSame(groups, [[1, 2], [3]]);
  ends[1]?.resolve();
  t.strictSame(await Promise.all(calls), [2, 4, 6]);
});

t.test('a failed group rejects its own calls only', async (t) => {
  const { groups, ends, double } = watchedGroups(2);
  const [one, two, three] = [double(1), double(2), double(3)];
  const failed = Promise.allSettled([one, two]);
  await turns();
  ends[0]?.reject(new Error('refused'));
  t.match(
    (await failed).map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  await turns();
  t.strictSame(groups[1], [3]);
  ends[1]?.resolve();
  t.equal(await three, 6);
});
