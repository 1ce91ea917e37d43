import { Webhook } from 'standardwebhooks';
import t, { type Test } from 'tap';
import { holdTimeLimits } from '#testing/held-time-limits.ts';
import { openFaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { WEBHOOK_SECRET } from '#testing/neighbours/neighbours.ts';
import { adapterSuite, sampleJob } from '#testing/suites/adapter-suite.ts';
import { Retryable } from './channel.ts';
import { webhookAdapter } from './webhook.ts';

const EARLIER_SECRET = `whsec_${Buffer.from('the secret before this one').toString('base64')}`;

async function setUp(t: Test) {
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
  const { receiver, adapter, timeOut } = await setUp(t);
  const taken = () => receiver.posts.map(({ text }) => JSON.parse(text).deliveryJobId);
  const secrets = [WEBHOOK_SECRET, WEBHOOK_SECRET.slice('whsec_'.length)];
  await adapterSuite(t, { adapter, taken, secrets, http: { receiver, timeOut } });
});

t.test('the webhook adapter sends the same body at each delivery attempt, with a new signature', async (t) => {
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
