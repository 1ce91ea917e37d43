import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import t, { type Test } from 'tap';
import { openFaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { WEBHOOK_SECRET } from '#testing/neighbours/neighbours.ts';
import { adapterSuite, sampleJob } from '#testing/suites/adapter-suite.ts';
import { holdTimeLimits } from '#testing/until.ts';
import { Retryable } from './channel.ts';
import { webhookSecretFault } from './keys.ts';
import { openSubscriberPosts, type SubscriberPost, subscriberUrlFault } from './subscriber.ts';
import { signWebhook, webhookAdapter } from './webhook.ts';

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

const EARLIER_SECRET = secretOf('the secret before this one');

async function openWebhook(t: Test) {
  const timeOut = holdTimeLimits(t);
  const receiver = await openFaultReceiver(t);
  let clock = 1_790_000_000_000;
  const adapter = webhookAdapter({
    url: `${receiver.url}/hook?tenant=1`,
    secrets: [WEBHOOK_SECRET],
    timeoutMs: 20_000,
    now: () => {
      clock += 1_000;
      return clock;
    },
  });
  return { receiver, adapter, timeOut };
}

t.test('the webhook adapter passes the adapter suite', async (t) => {
  const { receiver, adapter, timeOut } = await openWebhook(t);
  const taken = () => receiver.posts.map(({ text }) => JSON.parse(text).deliveryJobId);
  const secrets = [WEBHOOK_SECRET, WEBHOOK_SECRET.slice('whsec_'.length)];
  await adapterSuite(t, { adapter, taken, secrets, http: { receiver, timeOut } });
});

t.test('the webhook adapter sends the same body at each delivery attempt, with a new signature', async (t) => {
  const { receiver, adapter } = await openWebhook(t);
  const job = sampleJob('webhook');
  const { signal } = new AbortController();
  for (let n = 0; n < 2; n++) await adapter.send(job, { signal });
  const [first, second] = receiver.posts;
  if (first === undefined || second === undefined) throw new Error('nothing arrived');
  t.equal(first.path, '/hook?tenant=1');
  t.match(first.headers, { 'content-type': 'application/json; charset=utf-8' });
  t.strictSame(JSON.parse(first.text), {
    deliveryJobId: job.deliveryJobId,
    channel: 'webhook',
    notification: JSON.parse(JSON.stringify(job.notification)),
  });
  t.equal(first.text, second.text, 'the same bytes');
  for (const [post, time] of [
    [first, '1790000001'],
    [second, '1790000002'],
  ] as const) {
    const signature = new Webhook(WEBHOOK_SECRET).sign(job.deliveryJobId, new Date(Number(time) * 1_000), post.text);
    t.match(post.headers, {
      'webhook-id': job.deliveryJobId,
      'webhook-timestamp': time,
      'webhook-signature': signature,
    });
    t.notOk('x-signature' in post.headers, 'no signature of our own making');
  }
});

t.test('receivers with the new or the old secret accept a webhook while the secret is being changed', async (t) => {
  const receiver = await openFaultReceiver(t);
  const secrets = [WEBHOOK_SECRET, EARLIER_SECRET];
  const adapter = webhookAdapter({ url: receiver.url, secrets, timeoutMs: 20_000, now: Date.now });
  const job = sampleJob('webhook');
  await adapter.send(job, { signal: new AbortController().signal });
  const [post] = receiver.posts;
  t.match(post?.headers['webhook-signature'], /^v1,[\w+/]{43}= v1,[\w+/]{43}=$/);
  for (const secret of secrets) {
    const headers = post?.headers as Record<string, string>;
    t.strictSame(new Webhook(secret).verify(post?.text ?? '', headers), {
      deliveryJobId: job.deliveryJobId,
      channel: 'webhook',
      notification: JSON.parse(JSON.stringify(job.notification)),
    });
  }
});

t.test('an unreachable webhook receiver and an unknown host name are retryable', async (t) => {
  const { signal } = new AbortController();
  for (const url of ['http://127.0.0.1:1/hook', 'https://receiver.invalid/hook']) {
    const adapter = webhookAdapter({ url, secrets: [WEBHOOK_SECRET], timeoutMs: 20_000, now: () => 0 });
    await t.rejects(adapter.send(sampleJob('webhook'), { signal }), Retryable, url);
  }
});

const DEVELOPMENT = { production: false, allowsPrivate: false };

const postTo = (url: string): SubscriberPost => ({
  url,
  id: 'event-1',
  body: '{}',
  secrets: [SECRET],
  now: Date.now(),
  timeoutMs: 60_000,
  signal: new AbortController().signal,
});

t.test('private addresses are allowed by the operator, plain http and loopback in development', async (t) => {
  const inside = { production: true, allowsPrivate: true };
  t.equal(subscriberUrlFault('https://10.0.0.8/hook', inside), null);
  t.equal(subscriberUrlFault('https://receiver.internal/hook', inside), null);
  t.match(subscriberUrlFault('http://10.0.0.8/hook', inside), /https/);
  t.match(subscriberUrlFault('https://169.254.169.254/', inside), /private/);
  t.equal(subscriberUrlFault('http://127.0.0.1:9000/hook', DEVELOPMENT), null);
  t.equal(subscriberUrlFault('http://localhost:9000/hook', DEVELOPMENT), null);
  t.match(subscriberUrlFault('http://10.0.0.8/hook', DEVELOPMENT), /https/);
});

t.test('a receiver outside has the port 443 or 8443, unless the operator allows private networks', async (t) => {
  const outside = { production: true, allowsPrivate: false };
  const at = (port: string) => `https://school.example${port}/hook`;
  for (const port of ['', ':443', ':8443']) t.equal(subscriberUrlFault(at(port), outside), null, port);
  for (const port of [':22', ':80', ':6379', ':27017', ':0', ':65535']) {
    t.match(subscriberUrlFault(at(port), outside), /443 or 8443/, port);
    t.match(subscriberUrlFault(at(port), DEVELOPMENT), /443 or 8443/, port);
    t.equal(subscriberUrlFault(at(port), { ...outside, allowsPrivate: true }), null, port);
  }
});

t.test('a stored address at another port is not called', async (t) => {
  const receiver = await openFaultReceiver(t);
  const post = openSubscriberPosts({ production: true, allowsPrivate: false });
  const url = receiver.url.replace('http:', 'https:').replace('127.0.0.1', 'school.example');
  t.match(await post(postTo(url)), { kind: 'unanswered', error: { message: /must have the port 443 or 8443/ } });
  t.strictSame(receiver.posts, []);
});

t.test('a host name that leads to a private address is not called in production', async (t) => {
  const post = openSubscriberPosts({ production: true, allowsPrivate: false });
  const end = await post(postTo('https://localhost:8443/hook'));
  t.match(end, { kind: 'unanswered', error: { message: /private network/ } });
});

t.test('every 2xx is a success, no redirect is followed, and a cut reply is a failure', async (t) => {
  const receiver = await openFaultReceiver(t);
  const post = openSubscriberPosts(DEVELOPMENT);
  t.strictSame(await post(postTo(receiver.url)), { kind: 'served', status: 204 });
  receiver.behaviour = { kind: 'answer', status: 302, headers: { location: '/elsewhere' } };
  t.match(await post(postTo(receiver.url)), { kind: 'refused', status: 302 });
  receiver.behaviour = { kind: 'answer', status: 503, headers: { 'retry-after': '7' } };
  t.match(await post(postTo(receiver.url)), { kind: 'refused', status: 503, retryAfterMs: 7_000 });
  receiver.behaviour = { kind: 'cut-head' };
  t.match(await post(postTo(receiver.url)), { kind: 'unanswered' });
  t.equal(receiver.posts.length, 4, 'one for each call');
  receiver.behaviour = { kind: 'hang' };
  t.match(await post({ ...postTo(receiver.url), timeoutMs: 50 }), { error: { message: /within 50 ms/ } });
  t.strictSame(receiver.posts[0]?.headers['webhook-id'], 'event-1');
});
