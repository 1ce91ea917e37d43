import { createECDH, createPublicKey } from 'node:crypto';
import jwt from 'jsonwebtoken';
import t, { type Test } from 'tap';
import type { WebPushSettings } from '#infra/config/channel-settings.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { topicOf } from '#shared/notification/push.ts';
import { openFaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { type TestBrowser, testBrowser } from '#testing/stored/stored-notifications.ts';
import { adapterSuite, sampleJob } from '#testing/suites/adapter-suite.ts';
import { holdTimeLimits, until } from '#testing/until.ts';
import { Permanent, Retryable, Unreachable } from './channel.ts';
import { vapidKeys } from './keys.ts';
import { encryptPush } from './push-message.ts';
import { webPushAdapter } from './webpush.ts';

const PRIVATE_KEY = 'yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw';
const PUBLIC_KEY = 'BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8';

/** Opens push services, one for each browser, and an adapter that knows these browsers. */
async function setUp(t: Test, browsers: number, now = () => Date.now()) {
  const timeOut = holdTimeLimits(t);
  const keys = vapidKeys(PRIVATE_KEY);
  if (keys === null) throw new Error('the key of the test is no key');
  const services = await Promise.all(
    Array.from({ length: browsers }, async () => {
      const receiver = await openFaultReceiver(t);
      receiver.behaviour = { kind: 'answer', status: 201 };
      return { receiver, browser: testBrowser(`${receiver.url}/send/secret-of-the-endpoint`) };
    }),
  );
  const deleted: string[] = [];
  const outcomes: string[] = [];
  const settings: WebPushSettings = {
    keys,
    privateKey: PRIVATE_KEY,
    subject: 'mailto:it@school.example',
    ttlSeconds: 60,
    timeoutMs: 20_000,
  };
  const adapter = webPushAdapter(
    { ...settings, called: (outcome) => outcomes.push(outcome) },
    {
      now,
      hosts: [],
      subscriptionsOf: async () => services.map(({ browser }) => browser.subscription),
      deleteSubscription: async (_userId, id) => deleted.push(id),
      allowsPrivate: true,
    },
  );
  const send = (job = sampleJob('webpush')) =>
    adapter.send(job, { signal: new AbortController().signal }).catch((error: unknown) => error);
  return { services, adapter, timeOut, deleted, outcomes, send };
}

t.test('the webpush adapter passes the adapter suite', async (t) => {
  // Time passes between the calls, so that no fault of the suite pauses the push service.
  let time = Date.now();
  const later = () => {
    time += MINUTE;
    return time;
  };
  const { services, adapter, timeOut } = await setUp(t, 1, later);
  const [service] = services;
  if (service === undefined) throw new Error('no service');
  const { receiver, browser } = service;
  const taken = () => receiver.posts.map(({ bytes }) => browser.read(bytes).deliveryJobId);
  const secrets = ['secret-of-the-endpoint', PRIVATE_KEY, browser.subscription.auth];
  await adapterSuite(t, { adapter, taken, secrets, http: { receiver, timeOut, unreachable: [404, 410] } });
});

t.test('a push message is readable by its browser alone and signed for its push service', async (t) => {
  const { services, send } = await setUp(t, 2);
  const job = sampleJob('webpush');
  t.strictSame(await send(job), { providerId: null });
  const browsers = services.map(({ browser }) => browser);
  for (const [at, { receiver, browser }] of services.entries()) {
    const [post] = receiver.posts;
    if (post === undefined) throw new Error('nothing arrived');
    const { id, type, title, content, createdAt } = job.notification;
    t.strictSame(browser.read(post.bytes), {
      deliveryJobId: job.deliveryJobId,
      notification: { id, type, title, content, createdAt },
    });
    t.throws(() => (browsers[1 - at] as TestBrowser).read(post.bytes), 'another browser cannot read it');
    t.match(post.headers, {
      'content-encoding': 'aes128gcm',
      ttl: '60',
      urgency: 'normal',
      topic: topicOf(job.notification.id),
    });
    t.match(post.headers.topic, /^[A-Za-z0-9_-]{32}$/);
    const [, token = '', key = ''] = /^vapid t=(\S+), k=(\S+)$/.exec(post.headers.authorization ?? '') ?? [];
    t.equal(key, PUBLIC_KEY);
    t.match(jwt.verify(token, publicKeyOf(key), { algorithms: ['ES256'], audience: receiver.url }), {
      sub: 'mailto:it@school.example',
    });
  }
});

function publicKeyOf(key: string) {
  const point = Buffer.from(key, 'base64url');
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((half) => half.toString('base64url'));
  return createPublicKey({ key: { kty: 'EC', crv: 'P-256', x: x ?? '', y: y ?? '' }, format: 'jwk' });
}

t.test('the cipher reproduces the example of RFC 8291', async (t) => {
  const sender = createECDH('prime256v1');
  sender.setPrivateKey(Buffer.from(PRIVATE_KEY, 'base64url'));
  const browser = {
    p256dh: 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4',
    auth: 'BTBZMqHH6r4Tts7J_aSIgg',
  };
  const fresh = { salt: Buffer.from('DGv6ra1nlYgDCS1FRnbzlw', 'base64url'), sender };
  const body = encryptPush('When I grow up, I want to be a watermelon', browser, fresh);
  t.equal(
    body.toString('base64url'),
    'DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN',
  );
});

t.test('a private key yields its public key, and any other text is no key', async (t) => {
  t.equal(vapidKeys(PRIVATE_KEY)?.publicKey, PUBLIC_KEY);
  for (const text of ['', 'x', PUBLIC_KEY, `${PRIVATE_KEY}A`, 'A'.repeat(43), '_'.repeat(43)])
    t.equal(vapidKeys(text), null, text);
});

t.test('one browser that takes a message makes it a success, and browsers that are gone are deleted', async (t) => {
  const { services, send, deleted, outcomes } = await setUp(t, 3);
  const answers = (...statuses: number[]) =>
    statuses.forEach((status, at) => {
      const service = services[at];
      if (service !== undefined) service.receiver.behaviour = { kind: 'answer', status };
    });
  answers(503, 410, 201);
  t.strictSame(await send(), { providerId: null });
  t.strictSame(deleted, [services[1]?.browser.subscription.id]);
  t.strictSame(outcomes.toSorted(), ['failed', 'ok', 'refused']);
  answers(400, 503, 413);
  t.ok((await send()) instanceof Retryable, 'a retryable failure counts first');
  answers(400, 404, 410);
  t.ok((await send()) instanceof Permanent);
  answers(404, 404, 410);
  t.match(await send(), { name: 'Unreachable', reason: 'NO_SUBSCRIPTION' });
  const none = await setUp(t, 0);
  t.ok((await none.send()) instanceof Unreachable);
});

t.test('a push service without replies is paused, and then called once at a time until it replies', async (t) => {
  const clock = { now: Date.now() };
  const { services, send, timeOut } = await setUp(t, 1, () => clock.now);
  const receiver = services[0]?.receiver;
  if (receiver === undefined) throw new Error('no service');
  const paused = async (afterMs: number, about: string) => {
    const { length } = receiver.posts;
    t.match(await send(), { name: 'Paused', afterMs }, about);
    t.equal(receiver.posts.length, length, 'it is not called');
  };
  receiver.behaviour = { kind: 'hang' };
  for (let n = 1; n <= 3; n++) {
    const sending = send();
    await until('the call has arrived', () => receiver.posts.length === n);
    timeOut();
    t.ok((await sending) instanceof Retryable);
  }
  await paused(30_000, 'after three calls in a row');
  clock.now += 29_000;
  await paused(1_000, 'until the end of the pause');

  clock.now += 1_000;
  const trial = send();
  await until('one call is made', () => receiver.posts.length === 4);
  await paused(30_000, 'while a call is in progress');
  timeOut();
  t.ok((await trial) instanceof Retryable);
  await paused(30_000, 'and again');

  clock.now += 30_000;
  receiver.behaviour = { kind: 'answer', status: 500 };
  t.ok((await send()) instanceof Retryable, 'a reply ends the pause');
  receiver.behaviour = { kind: 'answer', status: 201 };
  t.strictSame(await Promise.all([send(), send(), send()]), Array(3).fill({ providerId: null }));
});

t.test('a paused push service does not keep a message from the other browsers of a user', async (t) => {
  const { services, send } = await setUp(t, 2);
  const [silent, other] = services.map(({ receiver }) => receiver);
  if (silent === undefined || other === undefined) throw new Error('no service');
  silent.behaviour = { kind: 'cut-head' };
  for (let n = 0; n < 4; n++) t.strictSame(await send(), { providerId: null });
  t.same([silent.posts.length, other.posts.length], [3, 4]);
  other.behaviour = { kind: 'answer', status: 400 };
  t.match(await send(), { name: 'Paused' }, 'a refusal of the other one leaves a message that may still arrive');
});

t.test('a stored browser at a host that is not allowed is not called, and stays', async (t) => {
  const { services } = await setUp(t, 1);
  const { receiver } = services[0] ?? {};
  const keys = vapidKeys(PRIVATE_KEY);
  if (keys === null || receiver === undefined) throw new Error('no key');
  const deleted: string[] = [];
  const endpoints = [`${receiver.url}/send/1`, 'https://evil.example/send/1', 'https://10.0.0.1/send/1'];
  const adapter = webPushAdapter(
    { keys, privateKey: PRIVATE_KEY, subject: 'mailto:it@school.example', ttlSeconds: 60, timeoutMs: 20_000 },
    {
      now: () => Date.now(),
      hosts: ['fcm.googleapis.com'],
      subscriptionsOf: async () => endpoints.map((endpoint) => testBrowser(endpoint).subscription),
      deleteSubscription: async (_userId, id) => deleted.push(id),
    },
  );
  await t.rejects(adapter.send(sampleJob('webpush'), { signal: new AbortController().signal }), {
    name: 'Unreachable',
  });
  t.strictSame([deleted, receiver.posts], [[], []]);
});
