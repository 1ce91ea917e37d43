import { statSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { readConfig } from '#infra/config/config.ts';
import { PROCESS_TYPES } from '#infra/config/readers.ts';
import { DEVELOPMENT_DEFAULTS, DEVELOPMENT_JWT_SECRET } from '#infra/config/variable.ts';
import { openLog } from '#infra/log/log.ts';
import { standInEnvironment } from '#scripts/sandbox/neighbours/environment.ts';
import { outputFor } from '#scripts/start/supervisor/cluster.ts';
import {
  effectiveEnvironment,
  firstSteps,
  frontDoorUrl,
  generatedSecret,
} from '#scripts/start/supervisor/development-defaults.ts';
import { parseFormation, parseProcfile, planCluster } from '#scripts/start/supervisor/plan.ts';
import { createPrefixedOutput } from '#scripts/start/supervisor/prefixed-output.ts';
import { takeDataFolder } from '#scripts/start/supervisor/processes.ts';
import { configFaults, PRODUCTION, strongSecret } from '#testing/config-faults.ts';
import { afterDeath } from './supervisor.ts';

t.test('parseProcfile reads one process type a line and refuses other lines', async (t) => {
  t.strictSame(parseProcfile('# types\nweb: node a.ts\r\n\n grading:node b.ts x: y \n'), [
    { name: 'web', command: 'node a.ts' },
    { name: 'grading', command: 'node b.ts x: y' },
  ]);
  t.throws(() => parseProcfile('web: a\nweb: b'), /line 2 repeats/);
  t.throws(() => parseProcfile('grade-notices: a'), /line 1 is not/);
  t.throws(() => parseProcfile('web:'), /line 1 is not/);
});

t.test('parseFormation overrides counts and refuses unknown process types', async (t) => {
  t.strictSame(
    [...parseFormation('', ['web', 'grading'])],
    [
      ['web', 1],
      ['grading', 1],
    ],
  );
  t.strictSame(
    [...parseFormation('web=2, grading=0', ['web', 'grading'])],
    [
      ['web', 2],
      ['grading', 0],
    ],
  );
  t.throws(() => parseFormation('wed=2', ['web']), /not a process type/);
  t.throws(() => parseFormation('web=-1', ['web']), /not name=count/);
});

t.test('the restart backoff grows to 30 s for early deaths and is at most 1 s after a longer life', async (t) => {
  const delays: number[] = [];
  let shortLives = 0;
  for (let death = 0; death < 9; death += 1) {
    const next = afterDeath(shortLives, 100);
    shortLives = next.shortLives;
    delays.push(next.delayMs);
  }
  t.strictSame(delays, [100, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
  t.equal(afterDeath(shortLives, 6_000).delayMs, 1_000);
  t.strictSame(afterDeath(shortLives, 60_000), { shortLives: 0, delayMs: 100 });
});

t.test('prefixed output preserves lines and characters for any division into chunks', async (t) => {
  const seed = Date.now() & 0xffff;
  t.comment(`seed ${seed}`);
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: 'grapheme' }).map((s) => s.replace(/[\r\n]/g, ''))),
      fc.array(fc.nat(7)),
      (lines, cuts) => {
        let written = '';
        const output = createPrefixedOutput({
          write: (text) => (written += text),
          colour: false,
          names: ['web', 'grading'],
        });
        const sink = output.stream('web');
        let bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
        for (const cut of cuts) {
          sink.write(bytes.subarray(0, cut));
          bytes = bytes.subarray(cut);
        }
        sink.write(bytes);
        sink.end();
        return written === lines.map((line) => `web     | ${line}\n`).join('');
      },
    ),
    { seed },
  );
});

t.test('prefixed output writes a last line without line feed and colours only the prefix', async (t) => {
  let written = '';
  const output = createPrefixedOutput({ write: (text) => (written += text), colour: true, names: ['web'] });
  const sink = output.stream('web');
  sink.write(Buffer.from('half'));
  t.equal(written, '');
  sink.end();
  t.equal(written, '\x1b[36mweb |\x1b[0m half\n');
});

t.test('development defaults apply to unset variables and not to empty ones', async (t) => {
  const place = { port: 3_000, secret: () => 'generated' };
  const { env, faults } = effectiveEnvironment({ OPS_TOKEN: '' }, place);
  t.strictSame(faults, []);
  t.match(env, {
    INTERNAL_SERVICE_TOKEN: 'dev-internal-token',
    OPS_TOKEN: '',
    AUTH_JWT_SECRET: 'generated',
    NODE_ENV: 'development',
  });
  t.equal(effectiveEnvironment({ AUTH_JWT_SECRET: '' }, place).env.AUTH_JWT_SECRET, '');
});

t.test('a token in a file has no development default beside it', async (t) => {
  const folder = t.testdir({ token: 'of-our-own\n' });
  const file = path.join(folder, 'token');
  const given = { INTERNAL_SERVICE_TOKEN_FILE: file, OPS_TOKEN_FILE: file, AUTH_JWT_SECRET_FILE: file };
  const { env, faults } = effectiveEnvironment(given, { port: 3_000, secret: () => 'generated' });
  t.strictSame(faults, []);
  t.match(readConfig({ MONGODB_URL: 'mongodb://a', ...env }, 'cluster'), {
    opsToken: ['of-our-own'],
    auth: { jwt: { secret: 'of-our-own' } },
  });
});

t.test('NEIGHBOURS_URL points a development cluster at the stand-ins, where nothing else is set', async (t) => {
  const place = { port: 3_000, secret: () => 'generated' };
  const configOf = (given: NodeJS.ProcessEnv) => {
    const { env, faults } = effectiveEnvironment({ NEIGHBOURS_URL: 'http://127.0.0.1:3999/', ...given }, place);
    t.strictSame(faults, []);
    return readConfig({ MONGODB_URL: 'mongodb://a', ...env }, 'cluster');
  };
  t.match(configOf({}), {
    neighbours: {
      profile: { url: 'http://127.0.0.1:3999/profile', token: 'dev-internal-token' },
      wallet: { url: 'http://127.0.0.1:3999/wallet' },
      notification: { url: 'http://127.0.0.1:3000' },
    },
    classifier: { provider: 'local', baseUrl: 'http://127.0.0.1:3999/models/v1', settles: true },
    notification: {
      channels: new Set(['webhook', 'email']),
      webhook: { url: 'http://127.0.0.1:3999/webhook' },
      email: { host: '127.0.0.1', port: 4000, tls: 'none' },
    },
  });
  const own = configOf({ NOTIFICATION_EMAIL_HOST: 'mail.example', NOTIFICATION_EMAIL_FROM: 'a@mail.example' });
  t.match(own.notification.email, { host: 'mail.example', port: 587, tls: 'starttls', from: 'a@mail.example' });
  t.equal(configOf({ PROFILE_SERVICE_BASE_URL: 'http://own' }).neighbours.profile?.url, 'http://own');
  t.match(configOf({ AI_CLASSIFIER_PROVIDER: 'mock' }).classifier, { provider: 'mock', baseUrl: null });
  const refused = effectiveEnvironment({ NODE_ENV: 'production', NEIGHBOURS_URL: 'http://127.0.0.1:3999' }, place);
  t.match(refused.faults, [/^NEIGHBOURS_URL: /]);
  const leaked = effectiveEnvironment(
    { NODE_ENV: 'production', ...standInEnvironment('http://127.0.0.1:3999') },
    place,
  );
  t.ok(
    leaked.faults.some((fault) => fault.startsWith('NOTIFICATION_WEBHOOK_SECRET: ')),
    'production refuses the secret of the stand-in',
  );
});

t.test('the first steps name the console, the reference and the demo, and no token of the owner', async (t) => {
  const place = { port: 3_000, secret: () => 'generated' };
  const steps = (given: NodeJS.ProcessEnv) =>
    firstSteps({ url: 'http://a:3000', env: effectiveEnvironment(given, place).env });
  t.match(steps({}), [
    /^console +http:\/\/a:3000\/ops; sign in with OPS_TOKEN dev-ops-token$/,
    /^api +http:\/\/a:3000\/docs is the reference, http:\/\/a:3000\/openapi\.json its document;/,
    /^operator +npm run examhall -- status$/,
    /^demo +npm run demo/,
  ]);
  t.match(steps({ API_DOCS: '0' })[1], /^api +http:\/\/a:3000\/openapi\.json is the document;/);
  t.notMatch(steps({ NODE_ENV: 'production' })[1], '/docs ');
  t.match(steps({ OPS_TOKEN: 'hunter2' })[0], /sign in with your OPS_TOKEN$/);
  t.match(steps({ OPS_TOKEN_FILE: '/run/token' })[0], /sign in with your OPS_TOKEN$/);
  t.match(steps({ OPS_TOKEN: '' })[0], /sign in as an ADMIN/);
  t.notMatch(steps({ OPS_TOKEN: 'hunter2' }).join(), 'hunter2');
});

t.test('frontDoorUrl returns an address for every HOST', async (t) => {
  t.equal(frontDoorUrl({}, 3_000), 'http://127.0.0.1:3000');
  for (const all of ['0.0.0.0', '::']) t.equal(frontDoorUrl({ HOST: all }, 3_000), 'http://127.0.0.1:3000');
  t.equal(frontDoorUrl({ HOST: '192.0.2.7' }, 3_000), 'http://192.0.2.7:3000');
  t.equal(frontDoorUrl({ HOST: '::1' }, 3_000), 'http://[::1]:3000');
  const place = { port: 3_000, secret: () => 'generated' };
  const { env } = effectiveEnvironment({ HOST: '192.0.2.7' }, place);
  t.equal(env.NOTIFICATION_SERVICE_URL, 'http://192.0.2.7:3000');
});

t.test('notices go to the cluster itself unless either name of their receiver is set', async (t) => {
  const place = { port: 3_000, secret: () => 'generated' };
  const receiver = (given: NodeJS.ProcessEnv) => {
    const { env, faults } = effectiveEnvironment(given, place);
    t.strictSame(faults, []);
    return readConfig({ MONGODB_URL: 'mongodb://a', ...env }, 'cluster').neighbours.notification?.url;
  };
  t.equal(receiver({}), 'http://127.0.0.1:3000');
  t.equal(receiver({ NOTIFICATION_SERVICE_URL: 'http://first' }), 'http://first');
  t.equal(receiver({ NOTIFICATION_SERVICE_BASE_URL: 'http://second' }), 'http://second');
  t.equal(receiver({ NOTIFICATION_SERVICE_URL: '' }), undefined, 'an empty name is set: no receiver');
  t.equal(receiver({ NOTIFICATION_SERVICE_BASE_URL: '' }), undefined);
  t.equal(receiver({ NOTIFICATION_SERVICE_URL: 'http://first', NOTIFICATION_SERVICE_BASE_URL: '' }), 'http://first');
});

t.test('production has no defaults and refuses development secrets', async (t) => {
  const place = {
    port: 3_000,
    secret: (): string => {
      throw new Error('a secret was generated');
    },
  };
  const bare = effectiveEnvironment({ NODE_ENV: 'production' }, place);
  t.match(bare.faults, [
    /^AUTH_JWT_SECRET: not set/,
    /^NOTIFICATION_INTERNAL_SERVICE_TOKEN: no/,
    /^GATEWAY_TOKEN: not set/,
    /^TRUSTED_PROXIES: not set/,
  ]);
  t.strictSame(bare.env, { NODE_ENV: 'production' });
  const known = {
    NODE_ENV: 'production',
    INTERNAL_SERVICE_TOKEN: 'dev-internal-token',
    OPS_TOKEN: strongSecret('ops'),
    GATEWAY_TOKEN: strongSecret('gateway'),
    AUTH_JWT_SECRET: strongSecret('jwt'),
    TRUSTED_PROXIES: 'none',
  };
  t.match(effectiveEnvironment(known, place).faults, [/^INTERNAL_SERVICE_TOKEN: .* not the development default$/]);
  t.strictSame(
    effectiveEnvironment({ ...known, INTERNAL_SERVICE_TOKEN: 'a token of our own, long enough' }, place).faults,
    [],
  );
  const tokenless = effectiveEnvironment({ ...known, INTERNAL_SERVICE_TOKEN: '' }, place);
  t.match(
    tokenless.faults,
    [/^NOTIFICATION_INTERNAL_SERVICE_TOKEN: no token for /],
    'the notification service needs a token for each sender',
  );
});

t.test('npm start in production refuses a stand-in database', async (t) => {
  const PATH = t.testdir({});
  const { MONGODB_URL: _url, ...env } = PRODUCTION;
  const plan = (more: NodeJS.ProcessEnv) => () => planCluster({ ...env, PATH, ...more });
  t.throws(plan({}), /- MONGODB_URL: not set, wanted a replica set; .* is a stand-in/);
  t.throws(plan({ EXAMHALL_ENGINE: 'rust' }), /is a stand-in for development/);
  t.throws(plan({ EXAMHALL_ENGINE: 'other' }), /EXAMHALL_ENGINE must be one of/);
  t.doesNotThrow(plan({ EXAMHALL_ENGINE: 'mongod' }), 'a mongod on PATH is no stand-in');
  t.doesNotThrow(plan(PRODUCTION));
});

t.test('npm start refuses to open a development cluster to other machines', async (t) => {
  const DATA_DIR = t.testdir({});
  const plan = (more: NodeJS.ProcessEnv) => () => planCluster({ DATA_DIR, HOST: '0.0.0.0', ...more });
  t.throws(plan({}), /- HOST: .* INTERNAL_SERVICE_TOKEN, OPS_TOKEN has a dev.* and GATEWAY_TOKEN is unset/);
  t.doesNotThrow(plan({ EXAMHALL_OPEN: '1' }));
  t.doesNotThrow(plan({ INTERNAL_SERVICE_TOKEN: 'i', OPS_TOKEN: 'o', GATEWAY_TOKEN: 'g' }));
});

t.test('only its owner may read a data folder', async (t) => {
  const folder = path.join(t.testdir({}), 'data');
  generatedSecret(folder);
  t.equal(statSync(folder).mode & 0o777, 0o700);
  const taken = await takeDataFolder(path.join(t.testdirName, 'taken'), () => undefined);
  t.teardown(taken.release);
  for (const made of [taken.path, path.join(taken.path, 'run')]) t.equal(statSync(made).mode & 0o777, 0o700, made);
});

t.test('npm start refuses the same secrets in production as its processes', async (t) => {
  const stores = { NODE_ENV: 'production', MONGODB_URL: 'mongodb://a', REDIS_URL: 'redis://a' };
  const place = { port: 3_000, secret: () => 'generated' };
  const known = Object.values(DEVELOPMENT_DEFAULTS)[0];
  const good = strongSecret('jwt');
  for (const env of [
    {},
    { SERVICES: 'attempt' },
    { SERVICES: 'attempt', AUTH_JWT_SECRET: 'short', AUTH_JWT_PREVIOUS_SECRETS: 'short' },
    { AUTH_JWT_SECRET: 'short', OPS_TOKEN: known },
    { AUTH_JWT_SECRET: DEVELOPMENT_JWT_SECRET },
    { AUTH_JWT_SECRET: '' },
    { AUTH_JWT_SECRET: good },
    { AUTH_JWT_SECRET: good, AUTH_JWT_PREVIOUS_SECRETS: `${good},${DEVELOPMENT_JWT_SECRET}` },
    { AUTH_JWT_SECRET: good, GATEWAY_TOKEN: known, NOTIFICATION_INTERNAL_SERVICE_TOKEN: known },
  ]) {
    const types = PROCESS_TYPES.filter((type) => type !== 'examhall');
    const refused = new Set(types.flatMap((type) => configFaults({ ...stores, ...env }, type)));
    t.same([...effectiveEnvironment({ ...stores, ...env }, place).faults].sort(), [...refused].sort(), env);
  }
});

/** Returns what `npm start` prints of the log of its front door, without the prefixes. */
async function printed(t: Test, given: NodeJS.ProcessEnv): Promise<string[]> {
  const plan = planCluster({ DATA_DIR: t.testdir() });
  const texts: string[] = [];
  const screen = { write: (text: string) => texts.push(text), isTTY: false } as unknown as NodeJS.WriteStream;
  const output = await outputFor({ ...plan, env: { ...plan.env, ...given } }, screen, {});
  const stream = output.stream('web');
  const { log } = openLog({
    level: 'info',
    name: 'web',
    destination: { write: (text) => stream.write(Buffer.from(text)) },
  });
  log.info({ port: 3_000 }, 'front door is open');
  log.error({ err: new Error('the disk is full') }, 'request failed');
  stream.write(Buffer.from('{"of":"another program"}\n'));
  stream.end();
  return texts.flatMap((text) => text.trimEnd().split('\n')).map((line) => line.replace(/^web +\| /, ''));
}

const isJson = (line: string) => line.startsWith('{"level":');

t.test('npm start prints log lines that a person reads', async (t) => {
  const lines = await printed(t, {});
  t.match(lines[0], /^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: front door is open \{"port":3000\}$/);
  t.ok(lines.some((line) => /ERROR: request failed/.test(line)));
  t.ok(lines.some((line) => line.includes('the disk is full')));
  t.notOk(lines.some(isJson));
  t.equal(lines.at(-1), '{"of":"another program"}', 'the output of other programs stays as it is');
});

t.test('in production npm start prints the lines of JSON that a collector reads', async (t) => {
  const lines = await printed(t, { NODE_ENV: 'production' });
  t.equal(lines.filter(isJson).length, 2);
  t.match(JSON.parse(lines[0] ?? ''), { name: 'web', port: 3_000, msg: 'front door is open' });
});
