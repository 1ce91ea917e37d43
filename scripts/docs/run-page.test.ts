import t from 'tap';
import { Identities } from './forms.ts';
import { type Example, type Outgoing, readPage } from './page.ts';
import { openPageShell } from './page-shell.ts';
import { rewritten } from './record.ts';
import type { RecordedCall } from './recording-proxy.ts';
import { type StepRun, stepDifferences } from './run-page.ts';

const [SHOWN_ID, REAL_ID] = ['019ab3c2-7d10-7c3e-9f00-5a1b2c3d4e5f', '019ab3c2-0000-7c3e-9f00-5a1b2c3d4e5f'];
const PAGE = `# Page

\`\`\`sh
curl -s $URL/v1/attempts
\`\`\`

Reply, \`201\`:

\`\`\`json
{ "id": "${SHOWN_ID}", "score": 1 }
\`\`\`

\`\`\`sh
curl -s $URL/metrics | head -1
\`\`\`

\`\`\`text
metric 1
\`\`\`

\`\`\`sh
curl -s $URL/v1
\`\`\`

\`\`\`http
POST /hook HTTP/1.1
X-Internal-Service: attempt-service

{ "entityId": "${SHOWN_ID}" }
\`\`\`

\`\`\`sh
curl -s $URL/new
\`\`\`

Reply, \`000\`, or \`200\`:

\`\`\`json
\`\`\`
`;
const page = readPage('x.md', PAGE);
const [json, text, silent, hook, empty] = page.steps as [Example, Example, Example, Outgoing, Example];

const call = (status: number, body: unknown): RecordedCall => ({
  method: 'GET',
  target: '/v1',
  sent: '',
  status,
  type: 'application/json',
  body: JSON.stringify(body),
});
const GOOD: StepRun[] = [
  { step: json, calls: [call(200, {}), call(201, { id: REAL_ID, score: 1 })], output: '' },
  { step: text, calls: [call(200, {})], output: 'metric 1\n' },
  { step: silent, calls: [call(200, {})], output: '{}' },
  {
    step: hook,
    received: [
      { method: 'POST', path: '/hook', headers: { 'x-internal-service': 'other' }, body: { a: 1, b: 2 } },
      {
        method: 'POST',
        path: '/hook',
        headers: { 'x-internal-service': 'attempt-service' },
        body: { entityId: REAL_ID },
      },
    ],
  },
  { step: empty, calls: [call(202, { list: [] })], output: '' },
];

const BAD: readonly [name: string, run: StepRun, difference: RegExp][] = [
  ['another status', { step: json, calls: [call(200, { id: REAL_ID, score: 1 })], output: '' }, /answered 200/],
  ['another body', { step: json, calls: [call(201, { id: REAL_ID, score: 2 })], output: '' }, /\/score is 2/],
  ['no call', { step: json, calls: [], output: '' }, /calls nothing/],
  [
    'an earlier call that fails',
    { step: json, calls: [call(409, {}), call(201, { id: REAL_ID, score: 1 })], output: '' },
    /answered 409/,
  ],
  [
    'a call that fails without a reply in the page',
    { step: silent, calls: [call(401, {})], output: '' },
    /answered 401/,
  ],
  ['another output', { step: text, calls: [call(200, {})], output: 'metric 2' }, /prints/],
  ['a failed call behind an output', { step: text, calls: [call(503, {})], output: 'metric 1' }, /answered 503/],
  [
    'a header of an outgoing request',
    { step: hook, received: [{ method: 'POST', path: '/hook', headers: {}, body: { entityId: REAL_ID } }] },
    /header x-internal-service is missing/,
  ],
];

t.test('a step of a page differs by status, body, output, header or a call that fails', async (t) => {
  const identities = new Identities();
  for (const run of GOOD.slice(0, -1)) t.strictSame(stepDifferences(run, identities), []);
  for (const [name, run, difference] of BAD) t.match(stepDifferences(run, new Identities()), [difference], name);
  t.throws(() => stepDifferences({ step: hook, received: [] }, new Identities()), /no neighbour received POST/);
});

t.test('an outgoing request has the ids of the replies before it', async (t) => {
  const [first, , , fourth] = GOOD as [StepRun, StepRun, StepRun, StepRun];
  const other = { ...hook, request: { ...hook.request, body: { entityId: SHOWN_ID.replace('019', '018') } } };
  const identities = new Identities();
  stepDifferences(first, identities);
  t.match(stepDifferences({ ...fourth, step: other } as StepRun, identities), [/entityId is/]);
});

t.test('recording fills an empty reply and leaves a page unchanged if only ids differ', async (t) => {
  const filled = PAGE.replace('`000`, or `200`', '`000`, or `202`').replace(
    '```json\n```',
    '```json\n{\n  "list": []\n}\n```',
  );
  t.equal(rewritten(page, GOOD), filled);
  const [first, ...others] = GOOD;
  const changed = { ...first, calls: [call(200, { id: REAL_ID, score: 2 })] } as StepRun;
  t.match(
    rewritten(page, [changed, ...others]),
    `Reply, \`200\`:\n\n\`\`\`json\n{\n  "id": "${SHOWN_ID}",\n  "score": 2\n}`,
  );
});

t.test('the blocks of a page share one bash, which calls the cluster under test', async (t) => {
  const shell = openPageShell('http://127.0.0.1:9');
  t.teardown(shell.close);
  t.equal(await shell.run('URL=http://127.0.0.1:3000 NAME=an-$RANDOM\nshow() { echo "$1"; }', 'x.md:1'), '');
  t.equal(await shell.run('show $URL/$NAME; echo kept > /tmp/file.txt', 'x.md:2'), 'http://127.0.0.1:9/an-20260\n');
  t.equal(await shell.run('cat /tmp/file.txt; ls examples/start.json', 'x.md:3'), 'kept\nexamples/start.json\n');
  await t.rejects(shell.run('echo before; echo why >&2; false | cat; echo after', 'x.md:4'), {
    message: /^x.md:4 failed:\nwhy\nbefore\n$/,
  });
});
