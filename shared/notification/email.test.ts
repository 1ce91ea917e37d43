import fc from 'fast-check';
import t from 'tap';
import { contactOf, emailOf, isMailAddress } from './email.ts';

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
  for (const name of [undefined, null, '', ' \n', 7]) t.equal(contactOf({ email: 'a@b', name })?.name, null);
  for (const email of [undefined, null, '', 7, 'An <a@b>', ['a@b']]) t.equal(contactOf({ email }), null);
});

t.test('the HTML of an e-mail contains the words of a notification and none of their markup', async (t) => {
  const contact = { email: 'a@b', name: '<b>An</b>', language: 'en' } as const;
  const address = 'https://school.example/u?a=1&b="2"';
  const { subject, text, html } = emailOf(
    { title: 'Điểm "9,25"\r\n<script>', content: 'a & b\n<img src=x>' },
    { contact, sender: "O'Neil", unsubscribeUrl: address },
  );
  t.equal(subject, 'Điểm "9,25" <script>');
  t.match(text, `Stop these e-mails: ${address}`);
  t.notMatch(html, /<script|<img|<b>/);
  t.match(html, 'a &amp; b<br>\n&lt;img src=x&gt;');
  t.match(html, 'href="https://school.example/u?a=1&amp;b=&quot;2&quot;"');
  t.match(html, 'O&#39;Neil');
  t.notMatch(emailOf({ title: 't', content: 'c' }, { contact, sender: 's', unsubscribeUrl: null }).html, 'href');
});

t.test('a subject is one line of at most 200 characters, for any title', async () => {
  const contact = { email: 'a@b', name: null, language: 'vi' } as const;
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 500 }), (title) => {
      const { subject } = emailOf({ title, content: '' }, { contact, sender: 's', unsubscribeUrl: null });
      return !/[\p{Cc}\u2028\u2029]/u.test(subject) && [...subject].length <= 200 && subject === subject.trim();
    }),
  );
});
