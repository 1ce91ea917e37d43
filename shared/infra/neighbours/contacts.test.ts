import t, { type Test } from 'tap';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { openContacts } from './contacts.ts';

const LIMITS = { timeoutMs: 10_000 };

async function setUp(t: Test) {
  const neighbours = await openNeighbours(t);
  const clock = { now: 1_790_000_000_000 };
  const read = openContacts({ url: neighbours.url, token: 'token-of-the-test' }, () => clock.now);
  return { neighbours, clock, read: (userId: string) => read(userId, LIMITS) };
}

t.test('a contact is read from the profile service and remembered for a minute', async (t) => {
  const { neighbours, clock, read } = await setUp(t);
  const found = { kind: 'found', contact: { email: 'student-1@school.example', name: 'Nguyễn An', language: 'vi' } };
  t.strictSame(await read('a/../b'), found);
  t.match(neighbours.calls, [
    {
      method: 'GET',
      path: '/v1/users/a%2F..%2Fb/contacts',
      headers: { 'x-internal-service': 'notification-service', 'x-internal-token': 'token-of-the-test' },
    },
  ]);
  clock.now += 60_000;
  t.strictSame(await read('a/../b'), found);
  t.equal(neighbours.calls.length, 1);
  clock.now += 1;
  await read('a/../b');
  t.equal(neighbours.calls.length, 2);
});

t.test('a person whom the profile service does not know has no contact, and a failure is not remembered', async (t) => {
  const { neighbours, read } = await setUp(t);
  t.strictSame(await read('..'), { kind: 'found', contact: null });
  t.equal(neighbours.calls.length, 0, 'a path segment is not called');
  neighbours.answer = () => ({ status: 503, headers: { 'retry-after': '7' } });
  t.match(await read('a'), { kind: 'refused', reply: { status: 503, retryAfterMs: 7_000 } });
  // Before: a page of a proxy was no address, and suppressed the e-mail for good.
  for (const body of ['Welcome', null, [], { email: 'a@b' }]) {
    neighbours.answer = () => ({ status: 200, body });
    t.match(await read('a'), { kind: 'unanswered' });
  }
  neighbours.answer = () => ({ status: 404 });
  t.strictSame(await read('a'), { kind: 'found', contact: null });
  neighbours.answer = () => ({ status: 200, body: { data: { email: 'no address' } } });
  t.strictSame(await read('a'), { kind: 'found', contact: null });
});

t.test('the contacts of at most 1,000 persons are remembered', async (t) => {
  const { neighbours, read } = await setUp(t);
  for (let n = 0; n <= 1_000; n++) await read(`user-${n}`);
  const { length } = neighbours.calls;
  await read('user-1000');
  t.equal(neighbours.calls.length, length);
  await read('user-0');
  t.equal(neighbours.calls.length, length + 1, 'the one that was read first is forgotten');
});
