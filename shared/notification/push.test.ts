import t from 'tap';
import { notificationView } from '#shared/notification/notification.ts';
import { freshNotification } from '#testing/stored/stored-notifications.ts';
import { testBrowser } from '#testing/stored/test-browser.ts';
import { isPushEndpoint, pushPayload, subscriptionFaults, subscriptionView } from './push.ts';

const HOSTS = ['fcm.googleapis.com', '*.push.services.mozilla.com', '*.push.apple.com', '*.notify.windows.com'];

t.test('an endpoint is an https address at a push service that the operator allows', async (t) => {
  for (const good of [
    'https://fcm.googleapis.com/fcm/send/abc:def',
    'https://updates.push.services.mozilla.com/wpush/v2/x?y=1',
    'https://wns2-par02p.notify.windows.com/w/?token=a%2Fb',
    'https://web.push.apple.com/x',
    'https://FCM.googleapis.com:443/x',
  ])
    t.ok(isPushEndpoint(good, HOSTS), good);
  for (const bad of [
    'http://fcm.googleapis.com/x',
    'https://fcm.googleapis.com:8443/x',
    'https://user@fcm.googleapis.com/x',
    'https://fcm.googleapis.com/#x',
    'https://fcm.googleapis.com/ x',
    'https://fcm.googleapis.com./x',
    'https://fcm.googleapis.com.evil.example/x',
    'https://x.fcm.googleapis.com/x',
    'https://evil.example/fcm.googleapis.com',
    'https://push.apple.com/x',
    'https://evilpush.apple.com/x',
    'https://push.example/x',
    'https://localhost/x',
    'https://127.0.0.1/x',
    'https://[::1]/x',
    'https://kubernetes.default.svc/x',
    `https://fcm.googleapis.com/${'x'.repeat(2_048)}`,
    'fcm.googleapis.com',
    '',
  ])
    t.notOk(isPushEndpoint(bad, HOSTS), bad);
});

t.test('a subscription has an address and keys of a browser; a reply shows neither', async (t) => {
  const { request, subscription } = testBrowser();
  t.strictSame(subscriptionFaults(request, HOSTS), []);
  t.match(subscriptionFaults({ ...request, endpoint: 'https://10.0.0.1/x' }, HOSTS), [{ path: '/endpoint' }]);
  const keys = { ...request.keys, p256dh: 'A'.repeat(87) };
  t.match(subscriptionFaults({ ...request, keys }, HOSTS), [{ path: '/keys/p256dh' }]);
  const shown = JSON.stringify(subscriptionView(subscription));
  for (const secret of [subscription.auth, subscription.p256dh, '/send/']) t.notOk(shown.includes(secret));
  t.match(subscription.id, /^[A-Za-z0-9_-]{32}$/);
});

t.test('the text of a message fits into a push message, whatever the notification contains', async (t) => {
  for (const character of ['a', 'ắ', '🎓', '"', '\n', '\u0001']) {
    const row = freshNotification({ title: character.repeat(500), content: character.repeat(20_000) });
    const text = pushPayload('n:webpush', notificationView(row));
    t.ok(Buffer.byteLength(text) <= 3_900, JSON.stringify(character));
    t.match(JSON.parse(text), { notification: { id: row._id, content: /…$/, title: /…$/ } });
  }
  const short = freshNotification({ title: 't', content: 'c' });
  t.match(JSON.parse(pushPayload('n', notificationView(short))), { notification: { title: 't', content: 'c' } });
  const hiding = freshNotification({ title: 'X \u202Egpj.exe', content: 'a\u200Bb' });
  t.match(JSON.parse(pushPayload('n', notificationView(hiding))), {
    notification: { title: 'X gpj.exe', content: 'ab' },
  });
});
