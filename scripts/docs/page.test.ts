import t from 'tap';
import { readPage } from './page.ts';
import { allPages } from './pages.ts';

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
