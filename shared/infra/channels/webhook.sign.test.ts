import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { signWebhook } from './webhook.ts';

const SECRET = 'webhook-secret-of-the-test';
const NOW = 1_790_000_000_000;
const FIVE_MINUTES = 5 * 60_000;
const BODY = JSON.stringify({ deliveryJobId: 'n1:webhook', notification: { title: 'Điểm "9,25" 🎓' } });

/** What a receiver may be handed, and whether it is to be believed. */
const HEADER = signWebhook(BODY, { secret: SECRET, now: NOW });
const CASES: readonly {
  name: string;
  body?: string;
  header?: string;
  secret?: string;
  now?: number;
  genuine: boolean;
}[] = [
  { name: 'as it was sent', genuine: true },
  { name: 'to the last moment of the tolerance', now: NOW + FIVE_MINUTES, genuine: true },
  { name: 'by a sender whose clock is ahead', now: NOW - FIVE_MINUTES, genuine: true },
  { name: 'with names that come later', header: `v2=abc,${HEADER},x=1`, genuine: true },
  { name: 'too old', now: NOW + FIVE_MINUTES + 1, genuine: false },
  { name: 'too new', now: NOW - FIVE_MINUTES - 1, genuine: false },
  { name: 'another body', body: `${BODY} `, genuine: false },
  { name: 'another secret', secret: `${SECRET}2`, genuine: false },
  { name: 'the time exchanged', header: HEADER.replace(`t=${NOW}`, `t=${NOW + 1}`), genuine: false },
  { name: 'no time', header: HEADER.slice(HEADER.indexOf('v1=')), genuine: false },
  { name: 'no signature', header: `t=${NOW}`, genuine: false },
  { name: 'half a signature', header: HEADER.slice(0, -2), genuine: false },
  { name: 'nothing', header: '', genuine: false },
];

/** The code that docs/webhook.md gives a receiver. */
function fromDocs(language: string): string {
  const text = readFileSync(path.resolve(import.meta.dirname, '../../../docs/webhook.md'), 'utf8');
  const code = new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 's').exec(text)?.[1];
  if (code === undefined) throw new Error(`docs/webhook.md has no ${language}`);
  return code;
}

t.test('the check that is documented for Node believes what was signed, and nothing else', async (t) => {
  const { isGenuine } = await import(`data:text/javascript,${encodeURIComponent(fromDocs('js'))}`);
  for (const { name, body = BODY, header = HEADER, secret = SECRET, now = NOW, genuine } of CASES) {
    t.equal(isGenuine(Buffer.from(body), header, secret, now), genuine, name);
  }
});

const python = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))']);
const skip = python.status === 0 ? false : 'no Python 3.10 on PATH';

t.test('so does the one for Python', { skip }, async (t) => {
  const given = CASES.map(({ body = BODY, header = HEADER, secret = SECRET, now = NOW }) => ({
    body,
    header,
    secret,
    now,
  }));
  const program = `${fromDocs('python')}
import json, sys
given = json.load(sys.stdin)
print(json.dumps([is_genuine(c["body"].encode(), c["header"], c["secret"], c["now"]) for c in given]))`;
  const { stdout, stderr } = spawnSync('python3', ['-c', program], { input: JSON.stringify(given), encoding: 'utf8' });
  t.strictSame(
    JSON.parse(stdout || '"nothing"'),
    CASES.map(({ genuine }) => genuine),
    stderr,
  );
});
