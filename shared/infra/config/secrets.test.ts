import { mkdirSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { readConfig, secretsOf } from '#infra/config/config.ts';
import { FILED } from '#infra/config/environment.ts';
import { configFaults, MONGODB_URL, PRODUCTION, REDIS_URL, strongSecret } from '#testing/config-faults.ts';

t.test('each token, key and secret may be in a file, without its final line break', async (t) => {
  const files = { mongodb: `${MONGODB_URL}\n`, redis: REDIS_URL };
  const folder = t.testdir({ a: 'first\n', b: 'second\r\n', c: ' a , b\n', empty: '', ...files });
  const at = (name: string) => path.join(folder, name);
  const config = readConfig(
    {
      MONGODB_URL,
      GATEWAY_TOKEN_FILE: at('a'),
      GATEWAY_TOKEN_PREVIOUS_FILE: at('c'),
      AUTH_JWT_SECRET_FILE: at('b'),
      OPENAI_API_KEY_FILE: at('a'),
      OPS_TOKEN_FILE: at('empty'),
    },
    'cluster',
  );
  t.strictSame(config.gatewayToken, ['first', 'a', 'b']);
  t.equal(config.auth.jwt.secret, 'second');
  t.strictSame(config.classifier.keys, { OPENAI_API_KEY: 'first' });
  t.equal(config.opsToken, undefined, 'an empty file is an empty token');
  t.strictSame(secretsOf(config).sort(), ['a', 'b', 'first', 'second'], 'the log redacts them');
  const stores = { MONGODB_URL_FILE: at('mongodb'), REDIS_URL_FILE: at('redis') };
  const { mongodb, redis } = readConfig(stores, 'grading');
  t.strictSame([mongodb.url, redis.url], [MONGODB_URL, REDIS_URL], 'connection strings contain passwords');
  for (const name of FILED) {
    const env = name === 'MONGODB_URL' ? {} : { MONGODB_URL };
    t.match(configFaults({ ...env, [`${name}_FILE`]: at('none') })[0], `${name}_FILE: not readable (ENOENT)`);
  }
});

t.test('a folder of credentials has one file for each secret, named after it', async (t) => {
  const CREDENTIALS_DIRECTORY = t.testdir({
    MONGODB_URL,
    INTERNAL_SERVICE_TOKEN: 'internal\n',
    OPS_READ_TOKEN: 'of the folder',
    AUTH_JWT_SECRET: 'foreign',
    README: 'another file',
    elsewhere: { own: 'of its own file' },
  });
  const named = path.join(CREDENTIALS_DIRECTORY, 'elsewhere/own');
  const config = readConfig({ CREDENTIALS_DIRECTORY, OPS_READ_TOKEN_FILE: named }, 'delivery');
  t.equal(config.mongodb.url, MONGODB_URL);
  t.strictSame(config.internalServiceToken, ['internal']);
  t.strictSame(config.opsReadToken, ['of its own file'], 'NAME_FILE has precedence');
  t.equal(config.auth.jwt.secret, '', 'a secret of another process type');
  t.match(configFaults({ CREDENTIALS_DIRECTORY, INTERNAL_SERVICE_TOKEN: 'other' }), [
    /^INTERNAL_SERVICE_TOKEN in CREDENTIALS_DIRECTORY: set beside INTERNAL_SERVICE_TOKEN, wanted one of the two$/,
  ]);
  mkdirSync(path.join(CREDENTIALS_DIRECTORY, 'GATEWAY_TOKEN'));
  t.match(configFaults({ CREDENTIALS_DIRECTORY }, 'web'), [
    /^GATEWAY_TOKEN in CREDENTIALS_DIRECTORY: not readable \(EISDIR\), wanted a file$/,
  ]);
  t.strictSame(configFaults({ CREDENTIALS_DIRECTORY }, 'delivery'), [], 'a process opens no file of another type');
  t.match(configFaults({ MONGODB_URL, CREDENTIALS_DIRECTORY: '' }), [/^CREDENTIALS_DIRECTORY: empty, wanted/]);
  t.strictSame(configFaults({ MONGODB_URL, CREDENTIALS_DIRECTORY: '/nowhere' }), [], 'a platform without secrets');
});

t.test('a file that cannot be read is a fault that names its variable and shows nothing', async (t) => {
  const folder = t.testdir({ good: 'x', short: 'hunter2' });
  mkdirSync(path.join(folder, 'directory'));
  const faults = configFaults({
    ...PRODUCTION,
    OPS_TOKEN_FILE: path.join(folder, 'good'),
    OPENAI_API_KEY_FILE: 'a-key-by-mistake',
    GEMINI_API_KEY_FILE: '',
    DEEPSEEK_API_KEY_FILE: path.join(folder, 'directory'),
    NOTIFICATION_TOKEN_BFF_SERVICE_FILE: path.join(folder, 'short'),
  });
  t.match(faults.toSorted(), [
    /^DEEPSEEK_API_KEY_FILE: not readable \(EISDIR\)/,
    /^GEMINI_API_KEY_FILE: empty, wanted/,
    /^NOTIFICATION_TOKEN_BFF_SERVICE: set to a value not shown here, wanted at least 24 characters/,
    /^OPENAI_API_KEY_FILE: not readable \(ENOENT\)/,
    /^OPS_TOKEN_FILE: set beside OPS_TOKEN, wanted one of the two/,
  ]);
  t.notMatch(faults.join(), /hunter2|by-mistake/);
});

t.test('earlier values of a token are accepted and never sent', async (t) => {
  const config = readConfig(
    {
      MONGODB_URL,
      GATEWAY_TOKEN: 'g2',
      GATEWAY_TOKEN_PREVIOUS: ' g1 ,, g0',
      OPS_TOKEN: 'o',
      INTERNAL_SERVICE_TOKEN: 'i2',
      INTERNAL_SERVICE_TOKEN_PREVIOUS: 'i1',
      ATTEMPT_INTERNAL_SERVICE_TOKEN_PREVIOUS: 'narrow',
      NOTIFICATION_TOKEN_ATTEMPT_SERVICE: 'n2',
      NOTIFICATION_TOKEN_ATTEMPT_SERVICE_PREVIOUS: 'n1',
      NOTIFICATION_SERVICE_URL: 'https://notify',
      PROFILE_SERVICE_URL: 'https://profile',
    },
    'cluster',
  );
  t.strictSame(config.gatewayToken, ['g2', 'g1', 'g0']);
  t.strictSame(config.opsToken, ['o']);
  t.strictSame(config.attempt.receiverToken, ['i2', 'narrow', 'i1'], 'a narrower token may be given up as well');
  t.strictSame(config.notification.senderTokens['attempt-service'], ['n2', 'n1']);
  t.strictSame(config.notification.senderTokens['exam-service'], ['i2', 'i1']);
  t.equal(config.neighbours.notification?.token, 'n2');
  t.equal(config.neighbours.profile?.token, 'i2');
  t.ok(['g1', 'g0', 'i1', 'narrow', 'n1'].every((secret) => secretsOf(config).includes(secret)));
});

t.test('earlier values obey the rules of tokens and require a current one', async (t) => {
  const faults = (more: NodeJS.ProcessEnv) => configFaults({ ...PRODUCTION, ...more });
  const good = strongSecret('one');
  t.strictSame(faults({ OPS_TOKEN_PREVIOUS: good, GATEWAY_TOKEN_PREVIOUS: strongSecret('two') }), []);
  t.strictSame(
    faults({
      ATTEMPT_INTERNAL_SERVICE_TOKEN: good,
      ATTEMPT_INTERNAL_SERVICE_TOKEN_PREVIOUS: PRODUCTION.INTERNAL_SERVICE_TOKEN,
    }),
    [],
    'a token may be split in two',
  );
  t.strictSame(
    faults({
      INTERNAL_SERVICE_TOKEN_PREVIOUS: good,
      ATTEMPT_INTERNAL_SERVICE_TOKEN_PREVIOUS: good,
      NOTIFICATION_TOKEN_BFF_SERVICE_PREVIOUS: good,
    }),
    [],
    'and rotated meanwhile',
  );
  t.match(faults({ OPS_TOKEN_PREVIOUS: `${good},short` }), [/^OPS_TOKEN_PREVIOUS: .*24 characters, each$/]);
  t.match(faults({ OPS_TOKEN_PREVIOUS: 'dev-ops-token' }), [/^OPS_TOKEN_PREVIOUS: .*development default, each$/]);
  const alone = { GATEWAY_TOKEN: '', GATEWAY_TRUST: 'network', GATEWAY_TOKEN_PREVIOUS: good };
  t.match(faults(alone), [/^GATEWAY_TOKEN_PREVIOUS: .* a current token in GATEWAY_TOKEN beside it$/]);
  const open = { MONGODB_URL, HOST: '0.0.0.0', GATEWAY_TOKEN: 'g', AUTH_JWT_SECRET: 'j', INTERNAL_SERVICE_TOKEN: 'i' };
  t.match(configFaults({ ...open, INTERNAL_SERVICE_TOKEN_PREVIOUS: 'dev-internal-token' }), [
    /^HOST: .* while INTERNAL_SERVICE_TOKEN_PREVIOUS has a development default/,
  ]);
});
