import t from 'tap';
import { readConfig, secretsOf } from '#infra/config/config.ts';
import { DEVELOPMENT_JWT_SECRET } from '#infra/config/variable.ts';
import { configFaults, MONGODB_URL, PRODUCTION, strongSecret } from '#testing/config-faults.ts';

t.test('a production front door of the auth service requires its own secret, other processes need none', async (t) => {
  const { AUTH_JWT_SECRET: _secret, ...env } = PRODUCTION;
  const secretFaults = (more: NodeJS.ProcessEnv) => configFaults({ ...env, ...more });
  t.match(secretFaults({}), [/^AUTH_JWT_SECRET: not set/]);
  t.match(secretFaults({ AUTH_JWT_SECRET: '' }), [/^AUTH_JWT_SECRET: empty/]);
  t.match(secretFaults({ AUTH_JWT_SECRET: strongSecret('jwt').slice(0, 31) }), [/wanted at least 32 bytes/]);
  t.match(secretFaults({ AUTH_JWT_SECRET: DEVELOPMENT_JWT_SECRET }), [/not the development default/]);
  const good = { AUTH_JWT_SECRET: strongSecret('jwt').slice(0, 32) };
  t.strictSame(secretFaults(good), []);
  t.match(secretFaults({ ...good, AUTH_JWT_PREVIOUS_SECRETS: DEVELOPMENT_JWT_SECRET }), [/development default, each/]);
  t.match(secretFaults({ ...good, AUTH_JWT_PREVIOUS_SECRETS: 'short' }), [/at least 32 bytes, each/]);
  t.strictSame(secretFaults({ SERVICES: 'attempt' }), []);
  t.strictSame(secretFaults({ SERVICES: 'attempt', AUTH_JWT_SECRET: 'short' }), []);
  t.match(configFaults({ MONGODB_URL, AUTH_JWT_SECRET: '' }), [/^AUTH_JWT_SECRET: empty/], 'also in development');
});

t.test('earlier secrets and trusted proxies are lists, and the log removes every secret', async (t) => {
  const config = readConfig(
    {
      MONGODB_URL,
      AUTH_JWT_SECRET: 'now',
      AUTH_JWT_PREVIOUS_SECRETS: ' before , , long ago',
      TRUSTED_PROXIES: '10.0.0.1, 192.168.0.0/16,::1,fd00::/8',
      AUTH_SELF_REGISTER_ROLES: 'STUDENT',
    },
    'cluster',
  );
  t.strictSame(config.auth.jwt.previousSecrets, ['before', 'long ago']);
  t.strictSame(config.auth.trustedProxies, ['10.0.0.1', '192.168.0.0/16', '::1', 'fd00::/8']);
  t.strictSame(config.auth.selfRegisterRoles, new Set(['STUDENT'] as const));
  t.strictSame(secretsOf(config), ['now', 'before', 'long ago']);
  t.strictSame(readConfig({ MONGODB_URL, TRUSTED_PROXIES: '' }, 'cluster').auth.trustedProxies, []);
  for (const wrong of ['proxy', '10.0.0.0/', '10.0.0.0/8/8', '::1/129', 'fe80::1%eth0', '1.2.3', '10.0.0.0/-1']) {
    t.match(configFaults({ MONGODB_URL, TRUSTED_PROXIES: `::1,${wrong}` }), [/^TRUSTED_PROXIES/], wrong);
  }
});

t.test('students and parents may register by default, and an empty list of roles closes registration', async (t) => {
  const rolesOf = (env: NodeJS.ProcessEnv) => [
    ...readConfig({ MONGODB_URL, ...env }, 'cluster').auth.selfRegisterRoles,
  ];
  t.strictSame(rolesOf({}), ['STUDENT', 'PARENT']);
  t.strictSame(rolesOf({ AUTH_SELF_REGISTER_ROLES: 'PARENT, TEACHER' }), ['TEACHER', 'PARENT']);
  t.strictSame(rolesOf({ AUTH_SELF_REGISTER_ROLES: '' }), []);
  for (const wrong of [' ', ',', 'STUDENT,', 'ADMIN', 'student']) {
    t.match(configFaults({ MONGODB_URL, AUTH_SELF_REGISTER_ROLES: wrong }), [/^AUTH_SELF_REGISTER_ROLES: /], wrong);
  }
});

t.test('the maximum age of a session is a whole number of days, at least 1', async (t) => {
  const maxMs = (days: string) => readConfig({ MONGODB_URL, AUTH_SESSION_MAX_DAYS: days }, 'cluster').auth.sessionMaxMs;
  t.equal(maxMs('1'), 86_400_000);
  for (const wrong of ['', '0', '0.5', '-1', '3651']) {
    t.match(configFaults({ MONGODB_URL, AUTH_SESSION_MAX_DAYS: wrong }), [/^AUTH_SESSION_MAX_DAYS: /], wrong);
  }
});
