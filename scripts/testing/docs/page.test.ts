import { globSync } from 'node:fs';
import path from 'node:path';
import { fromMarkdown } from 'mdast-util-from-markdown';
import t from 'tap';
import { openApi } from '#testing/doors/checked-api.ts';
import { asShown, differences, examplesOf, isCut, type Success, successesOf } from './compare.ts';
import { allPages, anchorsOf, brokenLinks, readPage, type ShownReply } from './page.ts';
import type { ExampleRun, RecordedCall } from './page-shell.ts';
import { streamDifferences } from './run-page.ts';

const PAGE = `# A page

\`\`\`sh
URL=http://127.0.0.1:3000
\`\`\`

## A route

It starts, in \`404\` ways.

\`\`\`sh
curl -s $URL/v1
\`\`\`

Answers \`201\` and never \`500\`:

\`\`\`json
{ "success": true }
\`\`\`

\`\`\`sh
curl -sN $URL/stream
\`\`\`

\`\`\`text
event: snapshot
\`\`\`

The notification service receives:

\`\`\`http
POST /v1/events HTTP/1.1
X-Internal-Token: secret

{ "a": 1 }
\`\`\`
`;

t.test('reads the examples of a page, their replies and the requests that the product sends', async (t) => {
  const { steps, faults } = readPage('x.md', PAGE);
  t.strictSame(faults, []);
  t.match(steps, [
    { kind: 'example', line: 3, script: 'URL=http://127.0.0.1:3000', reply: null },
    {
      kind: 'example',
      line: 11,
      reply: { kind: 'json', line: 17, status: 201, body: { success: true } },
    },
    { kind: 'example', line: 21, reply: { kind: 'text', status: null, text: 'event: snapshot' } },
    {
      kind: 'outgoing',
      line: 31,
      request: { method: 'POST', path: '/v1/events', headers: { 'x-internal-token': 'secret' }, body: { a: 1 } },
    },
  ]);
  t.equal(steps.length, 4);
});

const BROKEN: readonly [name: string, page: string, fault: RegExp][] = [
  ['a reply without a command', '`200`\n```json\n{}\n```', /without a command/],
  ['a second reply', '```sh\nx\n```\n`200`\n```json\n{}\n```\n`200`\n```json\n{}\n```', /without a command/],
  ['a reply below another heading', '```sh\nx\n```\n## B\n`200`\n```json\n{}\n```', /without a command/],
  ['a reply without a status', '```sh\nx\n```\n```json\n{}\n```', /no status/],
  ['a reply that is not JSON', '```sh\nx\n```\n`200`\n```json\n{ … }\n```', /not JSON/],
  ['a block with more than a language', '```sh skip\nx\n```', /nothing more/],
  ['a call in a block of another language', '```bash\ncurl http://x\n```', /no test runs/],
  ['a call in a block without a language', '```\ncurl http://x\n```', /no test runs/],
  ['a call in a line of prose', 'Run `curl -s http://x`.', /no test runs/],
  ['JSON in a block without a language', '```\nPOST /x\n\n{"a": 1}\n```', /no test runs/],
  ['a list in a block without a language', '```\n[1, 2]\n```', /no test runs/],
  ['a request without a request line', '```http\n{"a": 1}\n```', /not a request line/],
  ['a request whose body is not JSON', '```http\nGET / HTTP/1.1\n\n{…}\n```', /not a request line/],
];

t.test('names every example that no run would check', async (t) => {
  for (const [name, page, fault] of BROKEN) {
    const { faults } = readPage('x.md', page);
    t.match(faults, [fault], name);
  }
});

t.test('each call and each JSON of README and docs is run', async (t) => {
  const pages = allPages();
  t.ok(pages.length > 5);
  t.strictSame(
    pages.flatMap(({ faults }) => faults),
    [],
  );
});

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

const ROOT = path.resolve(import.meta.dirname, '../../..');

t.test('headings have the anchors that GitHub makes', async (t) => {
  const source = '# A `code`, and more\n\n## Twice\n\n## Twice\n\n<a id="n1"></a>\n\n## Câu hỏi_1: 202 – normal';
  t.strictSame(
    [...anchorsOf(fromMarkdown(source))],
    ['a-code-and-more', 'twice', 'twice-1', 'n1', 'câu-hỏi_1-202--normal'],
  );
});

t.test('a link to a missing file, heading or id is broken', async (t) => {
  const folder = t.testdir({
    'page.md':
      '# Here\n\n[a](#here) [b](#gone) [c](other.md#there) [d](other.md#gone) [e](gone.md) [f](https://x.example/#y)\n',
    'other.md': '## There\n',
  });
  t.strictSame(brokenLinks(folder, 'page.md'), [
    'page.md:3: #gone: no such heading or id',
    'page.md:3: other.md#gone: no such heading or id',
    'page.md:3: gone.md: no such file',
  ]);
});

t.test('every link within the documents leads to a place that exists', async (t) => {
  const files = globSync(['*.md', 'docs/**/*.md', 'clients/*/*.md'], { cwd: ROOT });
  t.ok(files.includes('README.md') && files.length > 10);
  t.strictSame(
    files.flatMap((file) => brokenLinks(ROOT, file)),
    [],
  );
});

const responses = {};
const api = openApi({
  paths: {
    '/v1/things/{id}': { get: { operationId: 'readThing', responses } },
    '/v1/things/all': { get: { operationId: 'listThings', responses } },
    '/v1/things': { post: { operationId: 'makeThing', requestBody: {}, responses } },
  },
});
const OLD = '01a20591-7f75-7f55-be3c-40634259aedf';
const NEW = '01a20591-89f4-75c6-84ef-5e7961a3becd';

function call(change: Partial<RecordedCall>): RecordedCall {
  const json = { success: true, data: {}, message: 'OK' };
  return { method: 'GET', target: '/v1/things/7', sent: '', status: 200, headers: {}, text: '', json, ...change };
}

function run(calls: RecordedCall[], reply: ShownReply | null = null): ExampleRun {
  return { step: { kind: 'example', line: 1, script: '', reply }, calls, output: '' };
}

function success(change: Partial<Success>): Success {
  return { operation: 'readThing', status: '200', shown: undefined, request: undefined, reply: { n: 1 }, ...change };
}

t.test('a call belongs to the operation of its path, a literal one first', async (t) => {
  t.equal(api.find('GET', '/v1/things/7?x=1')?.operationId, 'readThing');
  t.equal(api.find('GET', '/v1/things/all')?.operationId, 'listThings');
  t.equal(api.find('POST', '/v1/things/7'), undefined);
});

t.test('only successes of operations are examples, and an absent body is an empty object', async (t) => {
  const calls = [
    call({ status: 404 }),
    call({ target: '/elsewhere' }),
    call({ method: 'POST', target: '/v1/things', status: 201 }),
  ];
  t.match(successesOf(run(calls), api, new Map()), [
    { operation: 'makeThing', status: '201', request: {}, shown: undefined },
  ]);
});

t.test('an example has the ids of its page in request and reply', async (t) => {
  const json = { success: true, data: { id: NEW, more: 1 }, message: 'OK' };
  const shown = { success: true, data: { id: OLD, '…': '… 1 more' }, message: 'OK' };
  const sent = JSON.stringify({ token: `eyJ${'a'.repeat(40)}.b.c`, id: NEW });
  const made = call({ method: 'POST', target: '/v1/things', sent, json });
  const reply = { kind: 'json', line: 1, status: 200, body: shown } as const;
  const [found] = successesOf(run([made], reply), api, new Map([[OLD, NEW]]));
  t.strictSame(found?.reply, { success: true, data: { id: OLD, more: 1 }, message: 'OK' });
  t.strictSame(found?.request, { token: `eyJ${'a'.repeat(17)}…`, id: OLD });
  t.strictSame(found?.shown, shown);
});

t.test('a stream is an example as far as its page shows it', async (t) => {
  const stream = call({ json: undefined, text: 'event: snapshot\n\nevent: heartbeat\n\n' });
  t.strictSame(successesOf(run([stream]), api, new Map()), []);
  const reply = { kind: 'text', line: 1, status: null, text: 'event: snapshot\n' } as const;
  const [found] = successesOf(run([stream], reply), api, new Map());
  t.equal(found?.reply, 'event: snapshot');
});

t.test('a reply that a page shows comes before one that it hides', async (t) => {
  const all = [
    success({ reply: { n: 1 } }),
    success({ reply: { n: 2 }, shown: { n: 2 } }),
    success({ status: '202', reply: 3 }),
  ];
  t.strictSame(examplesOf(all, {}), { readThing: { replies: { 200: { n: 2 }, 202: 3 } } });
});

t.test('an earlier example stays if only ids and times differ', async (t) => {
  const before = { readThing: { request: { id: OLD }, replies: { 200: { at: '2026-01-01T00:00:00.000Z' } } } };
  const now = success({ request: { id: NEW }, reply: { at: '2026-02-02T00:00:00.000Z' } });
  t.strictSame(examplesOf([now], before), before);
  t.match(examplesOf([{ ...now, reply: { at: 1 } }], before), { readThing: { replies: { 200: { at: 1 } } } });
  const gone = { ...now, shown: {}, reply: {} };
  t.strictSame(examplesOf([gone], before).readThing?.replies, { 200: {} }, 'a field that the product lost');
});

t.test('an earlier example keeps what the page leaves out, because it depends on the run', async (t) => {
  const before = { readThing: { replies: { 200: { n: 1, list: [{ done: 3, id: 7 }] } } } };
  const now = success({ shown: { n: 1, '…': '… 1 more' }, reply: { n: 1, list: [{ done: 4, id: 8 }] } });
  t.strictSame(examplesOf([now], before), before);
  const cut = success({ shown: { n: 1, list: ['… 2 more'] }, reply: { n: 1, list: [{ done: 5, id: 9 }, {}] } });
  t.strictSame(examplesOf([cut], before), before);
  t.match(examplesOf([{ ...now, reply: { n: 2, list: [] } }], before), { readThing: { replies: { 200: { n: 2 } } } });
});
