import fc from 'fast-check';
import t from 'tap';
import { hidesText } from '#shared/kernel/text.ts';
import { notificationView } from '#shared/notification/notification.ts';
import { freshNotification, testBrowser } from '#testing/stored/stored-notifications.ts';
import { contactOf, emailOf, isMailAddress } from './email.ts';
import { isPushEndpoint, pushPayload, subscriptionFaults, subscriptionView } from './push.ts';

t.test('an address is one plain address of ASCII characters', async (t) => {
  for (const good of ['a@b', 'no-reply@school.example', "o'neil+exam@mail.school-1.example", '_@x.vn'])
    t.ok(isMailAddress(good), good);
  const bad = [
    '',
    'a',
    '@b',
    'a@',
    'a@b@c',
    'a b@c',
    'a@b c',
    'a@b,c@d',
    '"a"@b',
    'An <a@b>',
    'a@b\r\nBcc: c@d',
    'ă@b',
    'a@ă',
  ];
  for (const text of [...bad, 'a@b\n', ' a@b', 'a@b.', 'a@.b', `${'a'.repeat(250)}@b.vn`])
    t.notOk(isMailAddress(text), JSON.stringify(text));
});

t.test('a contact of the profile service has an address, perhaps a name, and a language', async (t) => {
  t.strictSame(contactOf({ email: 'a@b', name: ' Nguyễn\nAn ', locale: 'en-GB', phone: '1' }), {
    email: 'a@b',
    name: 'Nguyễn An',
    language: 'en',
  });
  for (const locale of [undefined, null, 'vi', 'vi-VN', 'end', 'fr', 7])
    t.equal(contactOf({ email: 'a@b', locale })?.language, 'vi');
  t.equal(contactOf({ email: 'a@b', name: '\u202eAn\u200b ' })?.name, 'An', 'it shows the letters that it has');
  for (const name of [undefined, null, '', ' \n', '\u200b\u3164', 7])
    t.equal(contactOf({ email: 'a@b', name })?.name, null);
  for (const email of [undefined, null, '', 7, 'An <a@b>', ['a@b']]) t.equal(contactOf({ email }), null);
});

const NOTICE = { type: 'EXAM_MOVED', title: 't', content: 'c', actorId: null, organizationId: null } as const;

t.test('the HTML of an e-mail contains the words of a notification and none of their markup', async (t) => {
  const contact = { email: 'a@b', name: '<b>An</b>', language: 'en' } as const;
  const address = 'https://school.example/u?a=1&b="2"';
  const { subject, text, html } = emailOf(
    { ...NOTICE, title: 'Điểm "9,25"\r\n<script>', content: 'a & b\n<img src=x>' },
    { contact, sender: "O'Neil", unsubscribeUrl: address },
  );
  t.equal(subject, 'Điểm "9,25" <script>');
  t.match(text, `Stop these e-mails: ${address}`);
  t.notMatch(html, /<script|<img|<b>/);
  t.match(html, 'a &amp; b<br>\n&lt;img src=x&gt;');
  t.match(html, 'href="https://school.example/u?a=1&amp;b=&quot;2&quot;"');
  t.match(html, 'O&#39;Neil');
  t.notMatch(emailOf(NOTICE, { contact, sender: 's', unsubscribeUrl: null }).html, 'href');
});

// Before: `kết quả: y<right-to-left override>gpj.exe` was shown as `kết quả: yexe.jpg`.
t.test('a subject and a greeting show their letters in the order that they have', async (t) => {
  const contact = contactOf({ email: 'a@b', name: 'An\u202e' });
  if (contact === null) throw new Error('no contact');
  const title = 'Kết\u200b quả: y \u202egpj.exe';
  const { subject, text } = emailOf({ ...NOTICE, title, content: '' }, { contact, sender: 's', unsubscribeUrl: null });
  t.equal(subject, 'Kết quả: y gpj.exe');
  t.match(text, /^Chào An,\n/);
});

t.test('a subject is one line of at most 200 characters, for any title', async () => {
  const contact = { email: 'a@b', name: null, language: 'vi' } as const;
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 500 }), (title) => {
      const { subject } = emailOf({ ...NOTICE, title }, { contact, sender: 's', unsubscribeUrl: null });
      return !hidesText(subject) && [...subject].length <= 200 && subject === subject.trim();
    }),
  );
});

t.test('format characters that hide or reverse text leave in no e-mail, and joiners do', async (t) => {
  const contact = contactOf({ email: 'a@b', name: 'An\u200B \u202Egpj.exe', locale: 'en' });
  if (contact === null) throw new Error('no contact');
  const words = { title: 'X: y \u202Egpj.exe', content: 'Quản trị viên\u2066\u200B, ক্\u200Dষ' };
  const mail = emailOf({ ...NOTICE, ...words }, { contact, sender: 's', unsubscribeUrl: null });
  t.equal(mail.subject, 'X: y gpj.exe');
  for (const text of [mail.text, mail.html]) {
    t.notMatch(text, /[\u200B\u202E\u2066]/);
    t.match(text, 'Quản trị viên, ক্\u200Dষ');
    t.match(text, 'Hello An gpj.exe,');
  }
});

t.test('the e-mail of a topic that a user has reported names the sender, and no text of the user can', async (t) => {
  const alert = { ...NOTICE, type: 'WEAK_TOPIC_ALERT', actorId: 'gv-<1>', organizationId: 'org-B' };
  const mailOf = (change: object, language: 'vi' | 'en') =>
    emailOf(
      { ...alert, ...change },
      { contact: { email: 'a@b', name: null, language }, sender: 's', unsubscribeUrl: null },
    );
  const vi = mailOf({}, 'vi');
  t.match(vi.text, /\n\nc\n\nThông báo này do một giáo viên .* Mã người gửi: gv-<1>\. Mã tổ chức: org-B\. .*\n\n-- \n/);
  t.match(vi.html, /<p>c<\/p>\n<p>Thông báo .*gv-&lt;1&gt;/);
  t.match(mailOf({ organizationId: null }, 'en').text, /Id of the sender: gv-<1>\. If the message looks wrong/);
  for (const ofService of [{ actorId: null }, { type: 'EXAM_MOVED' }])
    t.notMatch(mailOf(ofService, 'en').text, 'Id of the sender');
});

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
