import { createHmac } from 'node:crypto';
import t, { type Test } from 'tap';
import { openFaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { adapterSuite, sampleJob } from '#testing/suites/adapter-suite.ts';
import { Retryable } from './channel.ts';
import { webhookAdapter } from './webhook.ts';

const SECRET = 'webhook-secret-of-the-test';

async function setUp(t: Test) {
  const receiver = await openFaultReceiver(t);
  let clock = 1_790_000_000_000;
  const adapter = webhookAdapter({
    url: `${receiver.url}/hook?tenant=1`,
    secret: SECRET,
    timeoutMs: 300,
    now: () => clock++,
  });
  return { receiver, adapter };
}

t.test('the webhook adapter keeps the contract', async (t) => {
  const { receiver, adapter } = await setUp(t);
  const taken = () => receiver.posts.map(({ text }) => JSON.parse(text).deliveryJobId);
  await adapterSuite(t, { adapter, taken, secrets: [SECRET], receiver });
});

t.test('it sends the job and nothing else, signed anew at each try', async (t) => {
  const { receiver, adapter } = await setUp(t);
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
    notification: job.notification,
  });
  t.equal(first.text, second.text, 'the same bytes');
  for (const [post, time] of [
    [first, 1_790_000_000_000],
    [second, 1_790_000_000_001],
  ] as const) {
    const mac = createHmac('sha256', SECRET).update(`${time}.${post.text}`).digest('hex');
    t.equal(post.headers['x-signature'], `t=${time},v1=${mac}`);
  }
});

t.test('nobody there, and a name that no server has, are retryable', async (t) => {
  const { signal } = new AbortController();
  for (const url of ['http://127.0.0.1:1/hook', 'https://receiver.invalid/hook']) {
    const adapter = webhookAdapter({ url, secret: SECRET, timeoutMs: 20_000, now: () => 0 });
    await t.rejects(adapter.send(sampleJob('webhook'), { signal }), Retryable, url);
  }
});
