import fc from 'fast-check';
import t from 'tap';
import { DAY } from '#shared/kernel/time.ts';
import { isSecurityContact, securityTxt } from './security-txt.ts';

t.test('the file has one field a line, and the contacts in their order', async (t) => {
  const contacts = ['mailto:security@school.example', 'https://school.example/report'];
  t.equal(
    securityTxt(contacts, Date.UTC(2026, 4, 4, 3, 30)),
    `Contact: mailto:security@school.example
Contact: https://school.example/report
Expires: 2026-10-31T00:00:00.000Z
Preferred-Languages: vi, en
`,
  );
});

t.test('the file is valid for some months, and for less than a year, at any time', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4e12 }), (now) => {
      const expires = Date.parse(/^Expires: (\S+)$/m.exec(securityTxt(['mailto:a@b'], now))?.[1] ?? '');
      return expires - now > 90 * DAY && expires - now < 365 * DAY;
    }),
  );
});

t.test('a contact is one address without a second line', async (t) => {
  for (const good of ['mailto:a@school.example', 'https://school.example/x?y=1', 'tel:+84-24-1234567'])
    t.ok(isSecurityContact(good), good);
  for (const bad of [
    '',
    'a@school.example',
    'http://school.example',
    'mailto:a',
    'https://',
    'mailto:a@b\nPolicy: https://evil.example',
  ])
    t.notOk(isSecurityContact(bad), encodeURIComponent(bad));
});
