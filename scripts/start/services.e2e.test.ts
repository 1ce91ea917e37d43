import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type Collection, MongoClient } from 'mongodb';
import t from 'tap';
import { isOutage } from '#infra/mongo/faults.ts';
import { localRedis } from '#scripts/start/services/redis.ts';
import { untilReady } from '#scripts/start/services/service.ts';
import { createPrefixedOutput } from '#scripts/start/supervisor/prefixed-output.ts';
import { takeDataFolder } from '#scripts/start/supervisor/processes.ts';
import { openScratchFolder } from '#testing/scratch-folder.ts';
import { startThrowAwayServices } from '#testing/stores/throw-away.ts';
import { until } from '#testing/until.ts';
import { developmentServices } from './supervisor/cluster.ts';
import { createSupervisor } from './supervisor.ts';

const TIMEOUT_MS = 90_000;

t.test(
  'a development database that is killed during writes restarts at its URL with every acknowledged write',
  async (t) => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-data-'));
    const said: string[] = [];
    const output = createPrefixedOutput({
      write: (text) => said.push(text),
      colour: false,
      names: ['mongodb', 'redis'],
    });
    const { MONGODB_URL: _mongodb, REDIS_URL: _redis, ...env } = process.env;
    const data = await takeDataFolder(folder, () => {});
    const { mongodb, redis } = await developmentServices({ env, folder, say: () => {} });
    const supervisor = createSupervisor({ output, folder: data });
    t.teardown(async () => {
      await supervisor.stop();
      data.release();
      rmSync(folder, { recursive: true, force: true });
    });
    if (mongodb.launch === undefined || redis.launch === undefined) throw new Error('the services are not local');
    // A kill between two flushes of its log is rare, so check the option that makes it harmless.
    if (!mongodb.origin.endsWith('mongod')) t.ok(mongodb.launch.args.includes('--sync-on-commit'));
    const database = supervisor.keep('service', 'mongodb', mongodb.launch);
    const doorbell = supervisor.keep('service', 'redis', redis.launch);
    await untilReady(mongodb, TIMEOUT_MS);
    await untilReady(redis, TIMEOUT_MS);

    const writer = new MongoClient(mongodb.url, { retryWrites: false, w: 'majority', journal: true });
    const [rows, pairs] = collectionsOf(writer);
    // Create the collections first: concurrent transactions that create the same collection would conflict.
    for (const collection of [rows, pairs]) await collection.insertOne({ _id: -2 });
    const inOne = (id: number) =>
      writer.withSession(async (session) => {
        session.startTransaction();
        await rows.insertOne({ _id: id }, { session });
        await pairs.insertOne({ _id: id }, { session });
        await session.commitTransaction();
      });
    const acknowledged: number[] = [];
    const victim = database.pid();
    let next = 0;
    let isKilled = false;
    // Many writes at the same time, so that the kill meets writes that have begun and are not acknowledged yet.
    const lanes = Array.from({ length: 16 }, async () => {
      while (!isKilled) {
        const id = next;
        next += 1;
        try {
          await (id % 2 === 0 ? rows.insertOne({ _id: id }) : inOne(id));
        } catch (error) {
          if (isKilled || isOutage(error)) continue;
          throw error;
        }
        acknowledged.push(id);
        if (acknowledged.length < 500 || isKilled || victim === undefined) continue;
        isKilled = true;
        process.kill(victim, 'SIGKILL');
      }
    });
    await Promise.all(lanes);
    await writer.close();
    t.ok(acknowledged.length >= 500);

    await until('the database has restarted', () => ![undefined, victim].includes(database.pid()));
    await untilReady(mongodb, TIMEOUT_MS);
    const reader = new MongoClient(mongodb.url);
    t.teardown(() => reader.close());
    const [kept, paired] = await Promise.all(
      collectionsOf(reader).map(async (rows) => new Set((await rows.find().toArray()).map(({ _id }) => _id))),
    );
    if (kept === undefined || paired === undefined) throw new Error('there are two collections');
    t.strictSame(
      acknowledged.filter((id) => !kept.has(id)),
      [],
      'no acknowledged write is lost',
    );
    const odd = [...kept.union(paired)].filter((id) => id % 2 === 1);
    t.strictSame(
      odd.filter((id) => kept.has(id) !== paired.has(id)),
      [],
      'no transaction is stored in part',
    );

    const bell = doorbell.pid();
    if (bell !== undefined) process.kill(bell, 'SIGKILL');
    await until('Redis has restarted', () => doorbell.pid() !== bell);
    await untilReady(redis, TIMEOUT_MS);
    t.pass('Redis answers at its URL again');
  },
);

function collectionsOf(client: MongoClient): [Collection<{ _id: number }>, Collection<{ _id: number }>] {
  const db = client.db('durability');
  return [db.collection('rows'), db.collection('pairs')];
}

t.test('a temporary database keeps its URL and data over a kill and a start, and ends with close', async (t) => {
  const services = await startThrowAwayServices({ durable: true });
  t.teardown(() => services.close());
  const { mongodb, redis } = services;
  if (mongodb === undefined || redis === undefined) throw new Error('a service was not started');
  const client = new MongoClient(mongodb.url);
  await client.db('x').collection<{ _id: number }>('rows').insertOne({ _id: 1 });
  await client.close();
  const pids = [mongodb.pid(), redis.pid()];
  await Promise.all([mongodb.kill9(), redis.kill9()]);
  t.strictSame([mongodb.pid(), redis.pid()], [undefined, undefined]);
  await Promise.all([mongodb.start(), redis.start()]);
  t.notSame([mongodb.pid(), redis.pid()], pids);

  const again = new MongoClient(mongodb.url);
  t.equal(await again.db('x').collection('rows').countDocuments(), 1);
  await again.close();
  await services.close();
  t.strictSame([mongodb.pid(), redis.pid()], [undefined, undefined]);
});

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
  const { root: folder, put } = openScratchFolder(t);
  put('redis-server', '#!/bin/sh\nexec sleep 600\n');
  const env = { ...process.env, ...PLANTED, PATH: `${folder}:/usr/bin:/bin` };
  const { launch } = await localRedis({ env, cache: folder, say: () => {} }, { folder, port: 1 });
  if (launch === undefined) throw new Error('no launch plan');
  const child = spawn(launch.command, launch.args, { env: launch.env, cwd: launch.cwd, stdio: 'ignore' });
  t.teardown(async () => {
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  // Linux names a new program before it lays its environment out, so for an instant it has none.
  const runs = () => readFileSync(`/proc/${child.pid}/comm`, 'utf8').trim() === 'sleep';
  await until('the double runs', () => runs() && environmentOf(child.pid) !== '');
  const environment = environmentOf(child.pid);
  t.match(environment, `PATH=${env.PATH}`);
  t.notMatch(environment, /planted/);
});
