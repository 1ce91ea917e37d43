import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { FILED } from '#infra/config/environment.ts';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { productionSources } from '#testing/checks/project-files.ts';
import { openApi } from '#testing/doors/checked-api.ts';
import { type Example, type Outgoing, readPage } from './page.ts';
import type { RecordedCall } from './page-shell.ts';
import { openPageShell } from './page-shell.ts';
import { exampleDifferences, outgoingDifferences } from './run-page.ts';

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
`;
const [json, text, silent, hook] = readPage('x.md', PAGE).steps as [Example, Example, Example, Outgoing];

const schema = {
  type: 'object',
  properties: { id: { type: 'string' }, score: { type: 'integer' } },
  additionalProperties: false,
};
const reply = { content: { 'application/json': { schema } } };
const responses = { 200: reply, 201: reply, 202: {} };
const api = openApi({ paths: { '/v1': { get: { operationId: 'read', responses } } } });
const HEADERS = {
  'content-type': 'application/json; charset=utf-8',
  'x-request-id': '1',
  'x-content-type-options': 'nosniff',
};

const call = (status: number, body: unknown, change: Partial<RecordedCall> = {}): RecordedCall => {
  return { method: 'GET', target: '/v1', sent: '', status, headers: HEADERS, text: '', json: body, ...change };
};
const GOOD_CALL = call(201, { id: REAL_ID, score: 1 });

t.test('an example that answers what its page shows does not differ', async (t) => {
  for (const run of [
    { step: json, calls: [call(200, {}), GOOD_CALL], output: '' },
    { step: text, calls: [call(200, {})], output: 'metric 1\n' },
    { step: silent, calls: [call(202, {})], output: '{}' },
  ]) {
    t.strictSame(exampleDifferences(run, api, new Map()), []);
  }
});

const BAD: readonly [name: string, step: Example, calls: RecordedCall[], output: string, difference: RegExp][] = [
  ['another status', json, [call(200, { id: REAL_ID, score: 1 })], '', /answered 200/],
  ['another value', json, [call(201, { id: REAL_ID, score: 2 })], '', /\/score is 2/],
  ['a missing field', json, [call(201, { id: REAL_ID })], '', /\/score is missing/],
  ['no call', json, [], '', /calls nothing/],
  ['an earlier call that fails', json, [call(409, {}), GOOD_CALL], '', /answered 409/],
  ['a call that fails without a reply in the page', silent, [call(401, {})], '', /answered 401/],
  ['another output', text, [call(200, {})], 'metric 2', /is "metric 2" instead of "metric 1"/],
  ['a failed call behind an output', text, [call(503, {})], 'metric 1', /answered 503/],
  ['a reply that its schema does not allow', silent, [call(200, { more: 1 })], '', /must NOT have additional/],
  ['a status that the document lacks', silent, [call(204, undefined)], '', /204 is not in the OpenAPI document/],
  ['a call that the document lacks', silent, [call(200, {}, { target: '/v2' })], '', /no such operation/],
  ['a reply without an id', silent, [call(200, {}, { headers: {} })], '', /no X-Request-Id/],
];

t.test('an example differs by status, body, output, schema or a call that fails', async (t) => {
  for (const [name, step, calls, output, difference] of BAD) {
    t.match(exampleDifferences({ step, calls, output }, api, new Map()), [difference], name);
  }
  const renamed = { step: json, calls: [call(201, { id: REAL_ID, points: 1 })], output: '' };
  const found = exampleDifferences(renamed, api, new Map());
  t.match(found, [/must NOT have additional/, /\/score is missing/, /\/points is not shown/], 'a renamed field');
});

t.test('an outgoing request has the headers of its page and the ids of the replies before it', async (t) => {
  const sent = { method: 'POST', path: '/hook', body: { entityId: REAL_ID } };
  const good = { ...sent, headers: { 'x-internal-service': 'attempt-service', host: 'x' } };
  const other = { ...sent, headers: {}, body: { a: 1, b: 2 } };
  const found = (received: object[], ids = new Map()) =>
    outgoingDifferences(hook, { received: () => received as never }, ids, 0);
  t.strictSame(await found([other, good]), []);
  t.match(await found([other, { ...sent, headers: {} }]), [/^\/headers\/x-internal-service is missing/]);
  t.match(await found([good], new Map([[SHOWN_ID, 'another']])), [/\/body\/entityId is/]);
  t.match(await found([{ ...good, path: '/other' }]), [/no neighbour received POST \/hook/]);
});

t.test('the blocks of a page share one bash, which calls the cluster under test', async (t) => {
  const run = openPageShell(t, 'http://127.0.0.1:9');
  t.equal(await run('URL=http://127.0.0.1:3000 NAME=an-$RANDOM\nshow() { echo "$1"; }', 'x.md:1'), '');
  t.equal(await run('show $URL/$NAME; echo kept > /tmp/file.txt', 'x.md:2'), 'http://127.0.0.1:9/an-20260\n');
  t.equal(await run('cat /tmp/file.txt; ls examples/start.json', 'x.md:3'), 'kept\nexamples/start.json\n');
  await t.rejects(run('echo before; echo why >&2; false | cat; echo after', 'x.md:4'), {
    message: /^x.md:4 failed:\nwhy\nbefore\n$/,
  });
});

const ROOT = path.resolve(import.meta.dirname, '../../..');
const read = (file: string) => readFileSync(path.join(ROOT, file), 'utf8');
const GUIDE = read('docs/operating.md');
const RULES = read('ops/prometheus/rules.yml');
const SOURCES = [...productionSources().values()].join('\n');

/** Returns true if the sources register a metric of this name, or Node exports it. */
async function openExposed(): Promise<(name: string) => boolean> {
  const text = await openMetrics({ process: true }).render();
  const usual = new Set([...text.matchAll(/^# TYPE (\w+)/gm)].map(([, name = '']) => name));
  return (name) => usual.has(name) || SOURCES.includes(`'${name.replace(/_(bucket|sum|count)$/, '')}'`);
}

t.test('ops/prometheus/rules.yml uses only metrics and label values that the product exposes', async (t) => {
  const isExposed = await openExposed();
  const used = [...RULES.matchAll(/\b(?:examhall|http|nodejs|process)_\w+/g)].map(([name]) => name);
  t.ok(new Set(used).size > 5);
  for (const name of new Set(used)) t.ok(isExposed(name), name);
  for (const [, label = '', value = ''] of RULES.matchAll(/\b(name|ending|actor|route|outcome)!?="([^"]+)"/g)) {
    t.ok(SOURCES.includes(`'${value}'`), `${label}="${value}" occurs in the sources`);
  }
});

t.test('docs/operating.md lists exactly the alerts of the rules, and metrics that exist', async (t) => {
  const ofRules = [...RULES.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  const ofGuide = [...GUIDE.matchAll(/^\| `(Examhall\w+)` /gm)].map(([, name]) => name);
  t.strictSame(ofGuide, ofRules);
  const isExposed = await openExposed();
  for (const [, name = ''] of GUIDE.matchAll(/`(examhall_\w+|http_\w+)[`{]/g)) t.ok(isExposed(name), name);
});

t.test('docs/operating.md explains a dead command of every queue that can have one', async (t) => {
  const [, section = ''] = GUIDE.split('\n## Dead letters\n');
  // The sweeps never end: each run makes them due again.
  for (const queue of QUEUES.filter((name) => name !== 'upkeep')) {
    const [first = '', second] = queue.split(':');
    const named =
      section.includes(`\`${queue}\``) || (section.includes(`\`${first}:`) && section.includes(`\`…:${second}\``));
    t.ok(named, queue);
  }
});

t.test(
  'every log message in docs/operating.md occurs in the sources, and every error and fatal one is listed',
  async (t) => {
    const [, section = ''] = GUIDE.split('\n### Logs\n');
    const [table = ''] = section.split('\n## ');
    const listed = [...table.matchAll(/^\| (\d+) \w+ +\| (?:`` (.+?) ``|`(.+?)`) +\|/gm)];
    const messages = listed.map(([, , withTicks, plain]) => withTicks ?? plain ?? '');
    t.ok(messages.length > 20);
    for (const message of messages) t.ok(SOURCES.includes(`'${message}'`), message);
    const serious = SOURCES.matchAll(/\.(error|fatal)\(\s*(?:\{[^}]*\}|\w+),\s*'([^']+)',?\s*\)/g);
    for (const [, level, message = ''] of serious) t.ok(messages.includes(message), `${level}: ${message}`);
  },
);

const POLICY = readFileSync(path.join(ROOT, 'SECURITY.md'), 'utf8');

t.test('SECURITY.md names test files that exist as the evidence of each promise', async (t) => {
  const [, section = ''] = POLICY.split('\n### What holds\n');
  const [list = ''] = section.split('\n### ');
  const promises = list.split(/^- /m).slice(1);
  t.ok(promises.length > 15);
  for (const promise of promises) {
    const files = [...promise.matchAll(/`([^`]+\.test\.ts)`/g)].map(([, file]) => file ?? '');
    t.ok(files.length > 0, promise);
    for (const file of files) t.ok(existsSync(path.join(ROOT, file)), file);
  }
});

t.test('SECURITY.md describes the leak and the rotation of every secret of the configuration', async (t) => {
  const [, section = ''] = POLICY.split('\n### Leaked secrets\n');
  const [secrets = ''] = section.split('\n### ');
  for (const name of [...FILED, 'MONGODB_URL', 'REDIS_URL']) {
    const current = name.replace(/^NOTIFICATION_TOKEN_.*$/, 'NOTIFICATION_TOKEN_…').replace(/_PREVIOUS$/, '');
    t.match(secrets, `\`${current}\``, name);
  }
});

t.test('SECURITY.md rates every chapter of ASVS 5', async (t) => {
  const rows = [...POLICY.matchAll(/^\| V(\d+) [^|]+\| (\S[^|]*?) +\| \S/gm)];
  t.strictSame(
    rows.map(([, chapter]) => Number(chapter)),
    Array.from({ length: 17 }, (_, at) => at + 1),
  );
  for (const [row, , state] of rows) t.match(state, /^(holds|gap|not applicable)$/, row);
});
