import t from 'tap';
import { turnsByOrganization } from './turns.ts';

/** Returns due commands of organizations named by letters: `aab` are a-0, a-1 and b-2. */
const dueOf = (letters: string) => [...letters].map((letter, n) => ({ _id: `${letter}-${n}`, organizationId: letter }));

t.test('one slot goes round the organizations, within one by age', async (t) => {
  const turns = turnsByOrganization();
  let due = dueOf('aaaabbc');
  const order: string[] = [];
  while (due.length > 0) {
    const [next] = turns.take(due, 1);
    order.push(next?._id ?? '');
    turns.end(next?._id ?? '');
    due = due.filter((command) => command !== next);
  }
  t.strictSame(order, ['a-0', 'b-4', 'c-6', 'a-1', 'b-5', 'a-2', 'a-3']);
});

t.test('several slots go to different organizations', async (t) => {
  const turns = turnsByOrganization();
  const due = dueOf('aaaaabc');
  t.strictSame(
    turns.take(due, 3).map(({ _id }) => _id),
    ['a-0', 'b-5', 'c-6'],
  );
  t.strictSame(
    turns.take(due, 5).map(({ _id }) => _id),
    ['a-1', 'a-2', 'a-3', 'a-4'],
    'running commands are taken once',
  );
});

t.test('an organization whose run is slow gets no second slot before the others', async (t) => {
  const turns = turnsByOrganization();
  const due = dueOf('sqqqqss');
  turns.take(due, 2);
  for (const [ended, expected] of [
    ['q-1', 'q-2'],
    ['q-2', 'q-3'],
  ] as const) {
    turns.end(ended);
    const left = due.filter(({ _id }) => _id > ended || _id.startsWith('s'));
    t.strictSame(
      turns.take(left, 1).map(({ _id }) => _id),
      [expected],
    );
  }
});

t.test('commands without an organization take turns as one', async (t) => {
  const turns = turnsByOrganization();
  const due = [...dueOf('aa'), { _id: 'sweep', organizationId: null }];
  t.strictSame(
    turns.take(due, 2).map(({ _id }) => _id),
    ['a-0', 'sweep'],
  );
});
