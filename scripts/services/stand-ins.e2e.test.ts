import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';
import { until } from '#testing/until.ts';
import { localRedis } from './redis.ts';
import { startThrowAwayServices } from './throw-away.ts';

const skip = existsSync('/proc/self/environ') ? false : 'needs /proc';
const PLANTED = { OPENAI_API_KEY: 'sk-planted', GATEWAY_TOKEN: 'token-planted', PLAIN_WORD: 'word-planted' };

const environmentOf = (pid: number | undefined): string => readFileSync(`/proc/${pid}/environ`, 'utf8');

t.test('MongoDB or its stand-in runs without the secrets of the caller', { skip }, async (t) => {
  Object.assign(process.env, PLANTED);
  t.teardown(() => {
    for (const name of Object.keys(PLANTED)) delete process.env[name];
  });
  const services = await startThrowAwayServices({ redis: false });
  t.teardown(() => services.close());
  const environment = environmentOf(services.mongodb?.pid());
  t.match(environment, /(^|\0)PATH=/);
  t.notMatch(environment, /planted|AUTH_JWT_SECRET|MONGODB_URL|REDIS_URL/);
});

t.test('Redis runs without the secrets of the caller', { skip }, async (t) => {
  // Redis overwrites its environment in memory, so a double replaces it.
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-redis-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(path.join(folder, 'redis-server'), '#!/bin/sh\nexec sleep 600\n');
  chmodSync(path.join(folder, 'redis-server'), 0o755);
  const env = { ...process.env, ...PLANTED, PATH: `${folder}:/usr/bin:/bin` };
  const { launch } = await localRedis({ env, cache: folder, say: () => {} }, { folder, port: 1 });
  if (launch === undefined) throw new Error('no launch plan');
  const child = spawn(launch.command, launch.args, { env: launch.env, cwd: launch.cwd, stdio: 'ignore' });
  t.teardown(async () => {
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  await until('the double runs', () => readFileSync(`/proc/${child.pid}/comm`, 'utf8').trim() === 'sleep');
  const environment = environmentOf(child.pid);
  t.match(environment, `PATH=${env.PATH}`);
  t.notMatch(environment, /planted/);
});
