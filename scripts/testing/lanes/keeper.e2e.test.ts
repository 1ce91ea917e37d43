import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { MongoClient } from 'mongodb';
import t, { type Test } from 'tap';
import { isPortFree } from '#scripts/services/port.ts';
import { identify, isAlive, type ProcessIdentity } from '#scripts/supervisor/process-identity.ts';
import { until } from '#testing/until.ts';
import { keeperFolder, pidsIn, prepareLane } from './keeper-link.ts';

/** A process that does nothing until it is killed. */
function idleProcess(t: Test): { child: ChildProcess; identity: ProcessIdentity } {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  t.teardown(() => child.kill('SIGKILL'));
  const identity = child.pid === undefined ? undefined : identify(child.pid);
  if (identity === undefined) throw new Error('the idle process has not started');
  return { child, identity };
}

async function leaveDatabase(url: string): Promise<void> {
  const client = new MongoClient(url);
  await client.db('left_behind').collection('rows').insertOne({});
  await client.close();
}

t.test('the keeper replaces dirty stores and ends with its runner', async (t) => {
  // The keeper inherits this environment and would share the stores of the lane that runs this file.
  for (const name of ['MONGODB_URL', 'REDIS_URL']) Reflect.deleteProperty(process.env, name);
  const { child, identity } = idleProcess(t);
  const folder = keeperFolder(identity);
  const [first, other] = await Promise.all([prepareLane(identity, '0'), prepareLane(identity, '1')]);
  const { MONGODB_URL = '', REDIS_URL = '' } = first.env;
  t.equal(first.env.TEST_STORES_THROWN_AWAY, '1');
  t.not(other.env.MONGODB_URL, MONGODB_URL, 'lanes share no database');
  t.not(other.env.REDIS_URL, REDIS_URL, 'lanes share no Redis');
  t.strictSame((await prepareLane(identity, '0')).env, first.env, 'a clean lane keeps its stores');

  await leaveDatabase(MONGODB_URL);
  const replaced = await prepareLane(identity, '0');
  t.not(replaced.env.MONGODB_URL, MONGODB_URL, 'a dirty lane gets other stores');
  t.match(replaced.said.join('\n'), /left_behind/);
  t.strictSame((await prepareLane(identity, '1')).env, other.env, 'the other lane keeps its stores');

  const leftover = idleProcess(t);
  mkdirSync(pidsIn(folder), { recursive: true });
  writeFileSync(path.join(pidsIn(folder), 'leftover.json'), JSON.stringify(leftover.identity));
  child.kill('SIGKILL');
  await until('the keeper has ended', () => !existsSync(folder));
  // A killed process ends a moment after its signal.
  await until('a process that a test recorded is killed', () => !isAlive(leftover.identity));
  const ports = [replaced, other]
    .flatMap(({ env }) => [env.MONGODB_URL, env.REDIS_URL])
    .map((url) => new URL(url ?? ''));
  for (const { port } of ports) t.ok(await isPortFree(Number(port)), `nothing listens on ${port}`);
});
