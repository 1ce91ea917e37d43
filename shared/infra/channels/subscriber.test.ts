import t from 'tap';
import { openFaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { openSubscriberPosts, type SubscriberPost, subscriberUrlFault } from './subscriber.ts';

const SECRET = `whsec_${Buffer.from('subscriber-secret-of-32-bytes!!!').toString('base64')}`;
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
