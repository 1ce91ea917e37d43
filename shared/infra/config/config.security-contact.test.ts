import t from 'tap';
import { readConfig } from '#infra/config/config.ts';
import { configFaults, MONGODB_URL } from '#testing/config-faults.ts';

t.test('the security contact is a list of addresses, and outside production the mailbox of this machine', async (t) => {
  const given = 'mailto:security@school.example, https://school.example/report';
  t.strictSame(readConfig({ MONGODB_URL, SECURITY_CONTACT: given }, 'web').securityContacts, given.split(', '));
  t.strictSame(readConfig({ MONGODB_URL }, 'web').securityContacts, ['mailto:root@localhost']);
  for (const contact of [
    '',
    'security@school.example',
    'http://school.example',
    'mailto:a@b,,mailto:c@d',
    'mailto:a@b\nX: y',
  ])
    t.match(
      configFaults({ MONGODB_URL, SECURITY_CONTACT: contact }).at(-1),
      /^SECURITY_CONTACT: /,
      encodeURIComponent(contact),
    );
});
