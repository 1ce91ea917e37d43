import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { signWebhook } from './standard-webhooks.ts';
import { webhookSecretFault } from './webhook-secret.ts';

const secretOf = (key: string | Uint8Array) => `whsec_${Buffer.from(key).toString('base64')}`;
const SECRET = secretOf('a secret of the test, 32 bytes ..');
const BODY = JSON.stringify({ deliveryJobId: 'n1:webhook', notification: { title: 'Điểm "9,25" 🎓' } });

t.test('the signer reproduces the example of the Standard Webhooks convention', async (t) => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  const request = { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', now: 1_614_265_330_000, body: '{"test": 2432232314}' };
  t.strictSame(signWebhook(request, [secret]), {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  });
});

t.test('the signer signs as the public library does, for any key, body and time', async (t) => {
  const key = fc.uint8Array({ minLength: 1, maxLength: 64 });
  fc.assert(
    fc.property(key, fc.string(), fc.string({ unit: 'grapheme' }), fc.nat(2 ** 42), (bytes, id, body, now) => {
      const headers = signWebhook({ id, now, body }, [secretOf(bytes)]);
      return headers['webhook-signature'] === new Webhook(secretOf(bytes)).sign(id, new Date(now), body);
    }),
  );
  t.pass();
});

/** A request that a receiver may get, and whether it is genuine. */
interface Case {
  name: string;
  genuine: boolean;
  body: string;
  secret: string;
  headers: Record<string, string>;
}

/** Returns a request that was signed now, and cases that each change one thing of it. */
function cases(): Case[] {
  const now = Date.now();
  const signed = (at: number, secrets = [SECRET]) => signWebhook({ id: 'n1:webhook', now: at, body: BODY }, secrets);
  const good = { name: 'as it was sent', genuine: true, body: BODY, secret: SECRET, headers: signed(now) };
  const without = (header: string) =>
    Object.fromEntries(Object.entries(good.headers).filter(([name]) => name !== header));
  const other = secretOf('another secret');
  return [
    good,
    { ...good, name: 'by the old secret beside the new', headers: signed(now, [other, SECRET]) },
    { ...good, name: 'by the new secret beside the old', secret: other, headers: signed(now, [other, SECRET]) },
    { ...good, name: 'four minutes old', headers: signed(now - 240_000) },
    { ...good, name: 'from a sender whose clock is ahead', headers: signed(now + 240_000) },
    { ...good, name: 'too old', headers: signed(now - 360_000), genuine: false },
    { ...good, name: 'too new', headers: signed(now + 360_000), genuine: false },
    { ...good, name: 'another body', body: `${BODY} `, genuine: false },
    { ...good, name: 'another secret', secret: other, genuine: false },
    { ...good, name: 'another id', headers: { ...good.headers, 'webhook-id': 'n2:webhook' }, genuine: false },
    {
      ...good,
      name: 'another time',
      headers: { ...good.headers, 'webhook-timestamp': `${Math.floor(now / 1_000) - 1}` },
      genuine: false,
    },
    {
      ...good,
      name: 'a signature of another version',
      headers: { ...good.headers, 'webhook-signature': good.headers['webhook-signature']?.replace('v1,', 'v2,') ?? '' },
      genuine: false,
    },
    ...Object.keys(good.headers).map((header) => {
      return { ...good, name: `without ${header}`, headers: without(header), genuine: false };
    }),
  ];
}

/** Returns the code for receivers in docs/webhook.md. */
function fromDocs(language: string): string {
  const text = readFileSync(path.resolve(import.meta.dirname, '../../../docs/webhook.md'), 'utf8');
  const code = new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 's').exec(text)?.[1];
  if (code === undefined) throw new Error(`docs/webhook.md has no ${language}`);
  return code;
}

t.test('the documented Node code accepts genuine webhook signatures only', async (t) => {
  const file = path.join(t.testdir(), 'receiver.mjs');
  writeFileSync(file, fromDocs('js'));
  const { deliveryOf } = await import(file);
  for (const { name, genuine, body, secret, headers } of cases()) {
    const read = () => deliveryOf(Buffer.from(body), headers, secret);
    if (genuine) t.strictSame(read(), JSON.parse(BODY), name);
    else t.throws(read, { name: 'WebhookVerificationError' }, name);
  }
});

const python = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))']);
const skip = python.status === 0 ? false : 'no Python 3.10 on PATH';

t.test('the documented Python code accepts genuine webhook signatures only', { skip }, async (t) => {
  const given = cases();
  const program = `${fromDocs('python')}
import json, sys
given = json.load(sys.stdin)
print(json.dumps([is_genuine(c["body"].encode(), c["headers"], c["secret"]) for c in given]))`;
  const { stdout, stderr } = spawnSync('python3', ['-c', program], { input: JSON.stringify(given), encoding: 'utf8' });
  const judged: boolean[] = JSON.parse(stdout || '[]');
  t.equal(judged.length, given.length, stderr);
  for (const [at, { name, genuine }] of given.entries()) t.equal(judged[at], genuine, name);
});

t.test('a secret is whsec_ and canonical base64, and a fault never quotes it', async (t) => {
  for (const good of [SECRET, secretOf('x'), secretOf(new Uint8Array(64).fill(255)), secretOf('hunter2')]) {
    t.equal(webhookSecretFault(good, false), undefined, good);
  }
  const base64 = SECRET.slice('whsec_'.length);
  const bad = [
    'hunter2',
    base64,
    `WHSEC_${base64}`,
    'whsec_',
    'whsec_hunter2!',
    'whsec_aGk',
    'whsec_aGl=',
    ` ${SECRET}`,
  ];
  for (const secret of [...bad, `${SECRET}\n`, `${SECRET},${SECRET}`, 'whsec_-_-_', 'whsec_====']) {
    for (const production of [false, true]) {
      const fault = webhookSecretFault(secret, production);
      t.match(fault, /^whsec_ and the base64 of /, JSON.stringify(secret));
      t.notMatch(fault, secret.replace(/^whsec_/, '') || 'never', 'not quoted');
    }
  }
  const key = 'twenty-four-mixed-bytes!';
  t.equal(webhookSecretFault(secretOf(key), true), undefined);
  for (const weak of [key.slice(1), 'x'.repeat(24)])
    t.match(webhookSecretFault(secretOf(weak), true), /at least 24 random bytes/, 'in production');
});
