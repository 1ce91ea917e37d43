import t from 'tap';
import { readConfig } from '#infra/config/config.ts';
import { configFaults, MONGODB_URL } from '#testing/config-faults.ts';

t.test('the security contact is a list of addresses, perhaps with a policy and the address of the file', async (t) => {
  const env = {
    MONGODB_URL,
    SECURITY_CONTACT: 'mailto:security@school.example, https://school.example/report',
    SECURITY_POLICY: 'https://school.example/policy',
    SECURITY_TXT_URL: 'https://api.school.example/.well-known/security.txt',
  };
  t.strictSame(readConfig(env, 'web').securityContact, {
    contacts: ['mailto:security@school.example', 'https://school.example/report'],
    policy: env.SECURITY_POLICY,
    canonical: env.SECURITY_TXT_URL,
  });
  t.equal(readConfig({ MONGODB_URL }, 'web').securityContact, null);
  for (const contact of [
    '',
    'security@school.example',
    'http://school.example',
    'mailto:a@b,,mailto:c@d',
    'mailto:a@b\nX: y',
  ])
    t.match(
      configFaults({ ...env, SECURITY_CONTACT: contact }).at(-1),
      /^SECURITY_CONTACT: /,
      encodeURIComponent(contact),
    );
  for (const name of ['SECURITY_POLICY', 'SECURITY_TXT_URL'])
    t.strictSame(configFaults({ ...env, [name]: 'mailto:a@b' }), [`${name}: wanted an https URL`]);
});
