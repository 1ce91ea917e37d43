import t from 'tap';
import { notificationClient } from '#testing/clients/notification-client.ts';
import { openMailReceiver } from '#testing/neighbours/mail-receiver.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { testBrowser } from '#testing/stored/test-browser.ts';
import { until } from '#testing/until.ts';

const mail = await openMailReceiver(t);
const cluster = await startCluster(t, {
  inside: true,
  workers: ['delivery'],
  env: {
    ...mail.env,
    NOTIFICATION_CHANNELS: 'email',
    NOTIFICATION_UNSUBSCRIBE_URL: 'https://api.school.example/v1/notifications/unsubscribe',
    NOTIFICATION_UNSUBSCRIBE_SECRET: 'a secret of the test that is long enough',
    NOTIFICATION_WEBPUSH_PRIVATE_KEY: 'yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw',
    NOTIFICATION_WEBPUSH_SUBJECT: 'mailto:it@school.example',
  },
});
const client = await notificationClient(cluster);
const producer = client.service('exam-service');
const jobs = cluster.mongo.collection<{ _id: string; status: string }>('notification_deliveries');

t.test('a notification is an e-mail, until its user turns the e-mails off by the link in one', async (t) => {
  const user = client.as('STUDENT');
  await producer.create(user.id);
  const [first] = await until('the e-mail arrives', () => mail.mails.length > 0 && mail.mails);
  const [, path = ''] =
    /<https:\/\/api\.school\.example(\S+)>/.exec(first?.headers.get('list-unsubscribe') ?? '') ?? [];
  t.match(path, /^\/v1\/notifications\/unsubscribe\?token=/);

  t.match(await client.call('GET', path), { status: 200, data: { channel: 'email', isOff: false } });
  const page = await cluster.request('GET', path, { headers: { accept: 'text/html' } });
  t.match(page, { status: 200, headers: { 'content-type': /^text\/html/ }, text: /<form method="post">/ });
  t.notOk('channels' in (await user.preferences()).data, 'a GET changes nothing');
  for (const token of ['x', `${path.split('token=')[1]}A`])
    t.match(await client.call('POST', `/v1/notifications/unsubscribe?token=${token}`), {
      status: 400,
      json: { details: [{ path: '/token' }] },
    });

  for (const type of ['application/x-www-form-urlencoded', 'multipart/form-data; boundary=b']) {
    const off = await client.call('POST', path, {
      headers: { 'content-type': type },
      body: 'List-Unsubscribe=One-Click',
    });
    t.match(off, { status: 200, data: { channel: 'email', isOff: true } }, type);
  }
  t.match((await user.preferences()).data, { enabledTypes: {}, channels: { email: false } });
  const { notification } = (await producer.create(user.id)).data;
  t.match(await jobs.findOne({ _id: `${notification.id}:email` }), {
    status: 'SUPPRESSED',
    result: { reason: 'CHANNEL_DISABLED' },
  });
  t.match((await user.list()).data, { total: 2 }, 'the inbox has both');

  t.match(await user.prefer({ channels: { email: true } }), { status: 200, data: { channels: { email: true } } });
  t.match(await user.prefer({ channels: { webhook: false } }), { status: 400 });
  await producer.create(user.id);
  await until('the next e-mail arrives', () => mail.mails.length === 2);
});

t.test('a user registers, lists and removes browsers of its own', async (t) => {
  const user = client.as('STUDENT');
  const { headers } = user;
  const path = '/v1/push-subscriptions';
  t.match((await client.call('GET', '/v1/push-key', { headers })).data, { publicKey: /^B[\w-]{86}$/ });
  const { request, subscription } = testBrowser();
  const added = await client.call('POST', path, { headers, body: { ...request, expirationTime: null } });
  t.match(added, {
    status: 201,
    data: { subscription: { id: subscription.id, origin: 'https://fcm.googleapis.com' } },
  });
  t.notMatch(added.text, /auth|p256dh|\/send\//);
  for (const host of ['169.254.169.254', 'fcm.googleapis.com.evil.example', 'kubernetes.default.svc', 'printer.corp']) {
    const foreign = { ...request, endpoint: `https://${host}/send/1` };
    const refused = { status: 400, json: { code: 'VALIDATION_FAILED', details: [{ path: '/endpoint' }] } };
    t.match(await client.call('POST', path, { headers, body: foreign }), refused, host);
  }
  t.match(await client.call('POST', path, { headers, body: { endpoint: 'x' } }), { status: 400 });
  t.match(await client.call('POST', path, { body: request }), { status: 401 });
  const stranger = client.as('STUDENT').headers;
  t.strictSame((await client.call('GET', path, { headers: stranger })).data, { items: [] });
  const one = `${path}/${subscription.id}`;
  t.match((await client.call('DELETE', one, { headers: stranger })).data, { deleted: 0 });
  t.match((await client.call('GET', path, { headers })).data, { items: [{ id: subscription.id }] });
  t.match(await client.call('POST', path, { headers: stranger, body: request }), { status: 201 });
  t.strictSame((await client.call('GET', path, { headers })).data, { items: [] }, 'the last user has the browser');
  t.match(await client.call('POST', path, { headers, body: request }), { status: 201 });
  t.match((await client.call('DELETE', one, { headers })).data, { deleted: 1 });
  t.match((await client.call('DELETE', one, { headers })).data, { deleted: 0 });
});
