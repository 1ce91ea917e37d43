import t from 'tap';
import { asShown, differences, isCut } from './compare.ts';
import { streamDifferences } from './run-page.ts';

const [A, B] = ['019ab3c2-7d10-7c3e-9f00-5a1b2c3d4e5f', '019ab3c2-7d10-7c3e-9f00-ffffffffffff'];
const [C, D] = ['019ab3c2-0000-7c3e-9f00-5a1b2c3d4e5f', '019ab3c2-0000-7c3e-9f00-ffffffffffff'];
const TOKEN = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln-bmF0_dXJl';

const EQUAL: readonly [name: string, shown: unknown, real: unknown][] = [
  ['equal values', { a: [1, 'x', null, true] }, { a: [1, 'x', null, true] }],
  ['members in another order', { a: 1, b: 2 }, { b: 2, a: 1 }],
  ['ids', { id: A, parent: B }, { id: C, parent: D }],
  ['an id that comes twice', [A, A, B], [C, C, D]],
  ['ids within a text', `${A}:notification`, `${C}:notification`],
  ['times', '2026-01-01T00:00:00.000Z', '2027-02-03T04:05:06.789Z'],
  ['a token that the page cuts', { accessToken: 'eyJhbGciOi…' }, { accessToken: TOKEN }],
  ['a digest', 'a'.repeat(64), 'b'.repeat(64)],
  ['numbers of the clock', { checks: { latencyMs: 1.5 } }, { checks: { latencyMs: 2 } }],
  ['a shortened list', ['a', '… 2 more'], ['a', 'b', 'c']],
  ['a shortened object', { a: 1, '…': '… 2 more' }, { a: 1, b: 2, c: 3 }],
];

t.test('ids, times and other volatile values are compared by form', async (t) => {
  for (const [name, shown, real] of EQUAL) t.strictSame(differences(shown, real, new Map()), [], name);
});

const DIFFERENT: readonly [name: string, shown: unknown, real: unknown, difference: RegExp][] = [
  ['another text', { a: 'x' }, { a: 'y' }, /\/a is "y" instead of "x"/],
  ['another number', { a: 1 }, { a: 2 }, /\/a is 2/],
  ['another boolean', { a: true }, { a: false }, /\/a is false/],
  ['a number for a text', { a: '1' }, { a: 1 }, /\/a is 1/],
  ['null for an object', { a: {} }, { a: null }, /\/a is null/],
  ['a list for an object', { a: {} }, { a: [] }, /\/a is \[\]/],
  ['null for a number of the clock', { latencyMs: 1 }, { latencyMs: null }, /latencyMs is null/],
  ['a missing member', { a: 1, b: 2 }, { a: 1 }, /\/b is missing/],
  ['a further member', { a: 1 }, { a: 1, b: 2 }, /\/b is not shown/],
  ['a member that is null', { a: 1 }, { a: 1, b: null }, /\/b is not shown/],
  ['a missing item', [1, 2], [1], /\/1 is missing/],
  ['a further item', [1], [1, 2], /\/1 is not shown/],
  ['an item in another place', [1, 2], [2, 1], /\/0 is 2/],
  ['another number of hidden items', ['a', '… 2 more'], ['a', 'b'], /1 more instead of 2/],
  ['another number of hidden members', { a: 1, '…': '… 2 more' }, { a: 1, b: 2 }, /1 more instead of 2/],
  ['a shown member among the hidden', { a: 1, '…': '… 1 more' }, { b: 1, c: 2 }, /\/a is missing/],
  ['text for an id', { id: A }, { id: 'attempt-1' }, /\/id is "attempt-1"/],
  ['a time for an id', { id: A }, { id: '2026-01-01T00:00:00.000Z' }, /\/id is/],
  ['a time without milliseconds', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00Z', /the body is/],
  ['a time with a zone', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000+07:00', /the body is/],
  ['a token for an id', A, TOKEN, /the body is/],
  ['other text around an id', `${A}:read`, `${C}:delete`, /the body is/],
  ['two ids where the page shows one twice', [A, A], [C, D], /\/1 is/],
  ['one id where the page shows two', [A, B], [C, C], /\/1 is/],
];

t.test('each kind of difference is found', async (t) => {
  for (const [name, shown, real, difference] of DIFFERENT) {
    const found = differences(shown, real, new Map()).map(({ what }) => what);
    t.match(found, [difference], name);
    t.equal(found.length, name === 'an item in another place' ? 2 : name.startsWith('a shown member') ? 2 : 1, name);
  }
});

t.test('ids are learnt from a reply without differences only', async (t) => {
  const ids = new Map();
  differences({ id: A, n: 1 }, { id: C, n: 2 }, ids);
  t.equal(ids.size, 0);
  t.strictSame(differences({ id: A, n: 1 }, { id: C, n: 1 }, ids), []);
  t.strictSame([...ids], [[A, C]]);
  t.match(differences({ id: A }, { id: D }, ids), [{ at: '/id' }]);
});

t.test(
  'an example has the ids and the length of lists of its page, cuts tokens, and leaves no member out',
  async (t) => {
    const shown = { id: A, '…': '… 4 more', list: ['a', '… 2 more'], none: ['… 2 more'] };
    const real = { id: C, list: ['a', 'b', 'c'], none: [1, 2], token: TOKEN, note: `${C}:again`, other: D };
    const example = { id: A, list: ['a'], none: [1, 2], token: 'eyJhbGciOiJIUzI1NiJ9…', note: `${A}:again`, other: D };
    t.strictSame(asShown(shown, real, new Map([[A, C]])), example);
  },
);

t.test('a place is cut in the rest of a list or an object only', async (t) => {
  const shown = { a: 1, list: [{ x: 1 }, '… 2 more'], none: ['… 2 more'], '…': '… 1 more' };
  for (const at of ['/b', '/b/c', '/list/1', '/none/0/x']) t.equal(isCut(shown, at), true, at);
  for (const at of ['', '/a', '/a/b', '/list', '/list/0/x', '/list/0/y', '/none']) t.equal(isCut(shown, at), false, at);
});

const STREAM = (id: string) =>
  `retry: 3000\n\nid: abc\nevent: snapshot\ndata: {"unreadCount":0}\n\nevent: heartbeat\ndata: {}\n\nevent: notification\ndata: {"id":"${id}"}\n\n`;

t.test('a stream holds the events of the page in their order', async (t) => {
  const shown = `id: x\nevent: snapshot\ndata: {"unreadCount":0}\n\nevent: notification\ndata: {"id":"${A}"}`;
  t.strictSame(streamDifferences(shown, STREAM(C), new Map()), []);
  const [one, two] = shown.split('\n\n');
  for (const [name, other] of [
    ['order', `${two}\n\n${one}`],
    ['data', shown.replace('0}', '1}')],
    ['an id', shown.replace('id: x\n', '')],
    ['no id', `id: 1\n${two}`],
    ['another event', `event: counts\ndata: {"unreadCount":0}`],
  ] as const) {
    t.match(streamDifferences(other, STREAM(C), new Map()), [/no event .* in its place/], name);
  }
});
