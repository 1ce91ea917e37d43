import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { freePort } from '#scripts/start/services/port.ts';
import { callHttp } from '#testing/clients/call.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { makeSuspect } from '#testing/stored/stored-commands.ts';
import { dropTestDatabase, requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { takeRedisDatabase } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';
import { smoke } from './smoke.ts';

// Runs processes of this checkout with the entry point of the image. The workflow `image` runs them from the image itself.

const ROOT = path.resolve(import.meta.dirname, '../../..');
const SECRETS = ['INTERNAL_SERVICE_TOKEN', 'GATEWAY_TOKEN', 'OPS_TOKEN', 'OPS_READ_TOKEN', 'AUTH_JWT_SECRET'] as const;
/** Prints each access that Node's permissions deny. Many libraries ignore the error. */
const DENIALS = `import { subscribe } from 'node:diagnostics_channel';
import { writeSync } from 'node:fs';
for (const name of ['fs', 'child', 'worker', 'addon', 'inspector', 'wasi'])
  subscribe('node:permission-model:' + name, (access) => writeSync(2, 'DENIED ' + JSON.stringify(access) + '\\n'));
`;

const database = `e2e_${randomBytes(6).toString('hex')}`;
const mongo = openMongo({ url: requiredEnv('MONGODB_URL'), database, appName: 'examhall-test' });
const redis = await takeRedisDatabase(requiredEnv('REDIS_URL'));
t.teardown(async () => {
  await dropTestDatabase(mongo);
  await Promise.all([mongo.close(), redis.give()]);
});

/** Node may read the files below the folder of the product, and no others. */
const preload = path.join(ROOT, `node_modules/.cache/denials-${process.pid}.mjs`);
mkdirSync(path.dirname(preload), { recursive: true });
writeFileSync(preload, DENIALS);
t.teardown(() => rmSync(preload));
const secrets = Object.fromEntries(SECRETS.map((name) => [name, randomBytes(32).toString('hex')]));
// A folder of the platform, outside those that Node may read otherwise.
const credentials = mkdtempSync(path.join(os.tmpdir(), 'examhall-credentials-'));
t.teardown(() => rmSync(credentials, { recursive: true, force: true }));
for (const [name, secret] of Object.entries(secrets)) writeFileSync(path.join(credentials, name), `${secret}\n`);
const [port, metricsPort] = [await freePort(), await freePort()];
const PATH = `${path.dirname(process.execPath)}:${process.env.PATH}`;
const env: NodeJS.ProcessEnv = {
  PATH,
  NODE_ENV: 'production',
  CREDENTIALS_DIRECTORY: credentials,
  TRUSTED_PROXIES: 'none',
  HOST: '127.0.0.1',
  PORT: String(port),
  METRICS_PORT: String(metricsPort),
  MONGODB_URL: requiredEnv('MONGODB_URL'),
  MONGODB_DATABASE: database,
  REDIS_URL: redis.url,
  NODE_OPTIONS: `--import=${preload}`,
};
const url = `http://127.0.0.1:${port}`;

/** Starts the entry point of the image with arguments. */
function start(...args: readonly string[]) {
  const child = spawn('deploy/run', args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const killNow = () => child.kill('SIGKILL');
  process.once('exit', killNow);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const ended = once(child, 'close').then(([code]) => {
    process.off('exit', killNow);
    return code as number | null;
  });
  return { child, output: () => output, ended };
}

/** Returns the accesses that Node has denied. */
const denials = (output: string) => output.split('\n').filter((line) => line.startsWith('DENIED'));

async function untilReady(target: string, { child, output }: { child: ChildProcess; output: () => string }) {
  await until(`${target} answers`, async () => {
    if (child.exitCode !== null) throw new Error(`it ended: ${output()}`);
    return callHttp(target, 'GET', '/readyz').then(
      ({ status }) => status === 200,
      () => false,
    );
  });
}

t.test('release, web and a worker run with the permissions of deploy/run, grade an attempt and drain', async (t) => {
  const release = start('release');
  t.equal(await release.ended, 0, release.output());
  t.match(release.output(), 'schema is at version');

  // Before the worker is there, which would claim the command meanwhile.
  const suspect = await makeSuspect(mongo, await postGrading(mongo, await storeAttempt(mongo, SUBMITTED)));
  const web = start('web');
  const grading = start('grading');
  await untilReady(url, web);
  await untilReady(`http://127.0.0.1:${metricsPort}`, grading);
  const { INTERNAL_SERVICE_TOKEN: internal = '', GATEWAY_TOKEN: gateway, OPS_READ_TOKEN: token } = secrets;
  t.strictSame(await smoke(url, { internal, gateway }), [
    'register: 201',
    'log in: 200',
    'start: 201',
    'save: 200',
    'submit: 200',
  ]);
  for (const origin of [url, `http://127.0.0.1:${metricsPort}`]) {
    const { status, text } = await callHttp(origin, 'GET', '/metrics', {
      headers: { authorization: `Bearer ${token}` },
    });
    t.equal(status, 200);
    for (const name of ['process_open_fds', 'process_max_fds', 'process_resident_memory_bytes']) t.match(text, name);
  }
  await until('a suspect is graded in a thread', async () => (await readCommand(mongo, suspect))?.status === 'DONE');
  t.match(grading.output(), 'suspect started alone in a thread');
  const health = (own: NodeJS.ProcessEnv) =>
    spawnSync(process.execPath, ['deploy/health.mjs'], { cwd: ROOT, env: { ...env, NODE_OPTIONS: '', ...own } }).status;
  t.equal(health({}), 0);
  t.equal(health({ PORT: '1' }), 0, 'a worker answers on METRICS_PORT');
  t.equal(health({ PORT: '1', METRICS_PORT: '' }), 1);

  t.match(grading.output(), 'AUTH_JWT_SECRET in CREDENTIALS_DIRECTORY is set but `grading` does not use it');
  t.notMatch(web.output(), 'does not use it');

  const tool = start('examhall', 'workers');
  t.equal(await tool.ended, 0, tool.output());
  t.match(tool.output(), 'grading');
  for (const { child, ended, output } of [web, grading]) {
    child.kill('SIGTERM');
    t.equal(await ended, 0, output());
  }
  for (const one of [release, web, grading, tool]) {
    // Node prepares a debugger for each thread, which it then denies. Nothing depends on it.
    const expected = one === grading ? ['DENIED {"permission":"Inspector","resource":""}'] : [];
    t.strictSame(denials(one.output()), expected);
    t.notMatch(one.output(), 'Warning:', 'every line of a process is one of its log');
  }
});

t.test('a process of deploy/run reads, writes and starts nothing beside what it needs', async (t) => {
  const attempts = {
    'a file outside': "fs.readFileSync('/etc/passwd')",
    'another process': "fs.readFileSync('/proc/1/status')",
    'the file system below its own process': "fs.readFileSync('/proc/self/root/etc/hostname')",
    'its own code': "fs.openSync('api/main.ts', 'r+')",
    'a new file': "fs.writeFileSync('/tmp/examhall-denied', '')",
    'a program': "(await import('node:child_process')).spawnSync('true')",
    'a thread': "new (await import('node:worker_threads')).Worker('1', { eval: true })",
  };
  const script = Object.entries(attempts).map(
    ([name, code]) => `try { ${code}; console.log('${name}: done') } catch (e) { console.log('${name}: ' + e.code) }`,
  );
  const source = `import fs from 'node:fs';\n${script.join('\n')}`;
  const probe = start('node', '--input-type=module', '--eval', source);
  t.equal(await probe.ended, 0);
  for (const name of Object.keys(attempts)) t.match(probe.output(), `${name}: ERR_ACCESS_DENIED`);
});
