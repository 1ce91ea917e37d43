import fc from 'fast-check';
import t from 'tap';
import { DAY } from '#shared/kernel/time.ts';
import { isSecurityContact, securityTxt } from './security-txt.ts';

t.test('the file has one field a line, and only those that the operator has set', async (t) => {
  const now = Date.UTC(2026, 4, 4, 3, 30);
  t.equal(
    securityTxt(
      {
        contacts: ['mailto:security@school.example', 'https://school.example/report'],
        policy: 'https://school.example/policy',
        canonical: 'https://api.school.example/.well-known/security.txt',
      },
      now,
    ),
    `Contact: mailto:security@school.example
Contact: https://school.example/report
Expires: 2026-10-31T00:00:00.000Z
Preferred-Languages: vi, en
Policy: https://school.example/policy
Canonical: https://api.school.example/.well-known/security.txt
`,
  );
  const short = securityTxt({ contacts: ['tel:+84-24-1234567'], policy: null, canonical: null }, now);
  t.notMatch(short, /Policy|Canonical|null/);
});

t.test('the file is valid for some months, and for less than a year, at any time', async () => {
  const contact = { contacts: ['mailto:a@b'], policy: null, canonical: null };
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4e12 }), (now) => {
      const expires = Date.parse(/^Expires: (\S+)$/m.exec(securityTxt(contact, now))?.[1] ?? '');
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
