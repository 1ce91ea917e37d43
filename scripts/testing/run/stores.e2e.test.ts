import { spawn } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import { identifyMongodb } from '#scripts/bench/machine.ts';
import { chooseEngine } from '#scripts/start/services/mongodb.ts';
import { isPortFree } from '#scripts/start/services/port.ts';
import { startThrowAwayServices } from '#testing/stores/throw-away.ts';
import { until } from '#testing/until.ts';
import { endAbandonedStores, endStores, startStores, storesOf } from './stores.ts';

t.test('each lane of a run has stores of its own, which end after a runner that was killed', async (t) => {
  // This process would share the stores of its own lane.
  for (const name of ['MONGODB_URL', 'REDIS_URL']) Reflect.deleteProperty(process.env, name);
  const runner = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  const { pid = 0 } = runner;
  t.teardown(() => {
    runner.kill('SIGKILL');
    endStores(pid);
  });

  await startStores(pid, 2);
  const lanes = [storesOf(pid, '0'), storesOf(pid, '1')];
  const urls = lanes.flatMap(({ MONGODB_URL = '', REDIS_URL = '' }) => [MONGODB_URL, REDIS_URL]);
  const isListening = async (url: string) => !(await isPortFree(Number(new URL(url).port)));
  t.equal(new Set(urls).size, 4);
  t.equal(lanes[0]?.TEST_STORES_THROWN_AWAY, '1');
  endAbandonedStores();
  t.strictSame(
    await Promise.all(urls.map(isListening)),
    [true, true, true, true],
    'they go on as long as their runner',
  );

  const ended = once(runner, 'exit');
  runner.kill('SIGKILL');
  await ended;
  endAbandonedStores();
  t.strictSame(storesOf(pid, '0'), {});
  // A process that was killed keeps its port until the kernel has taken it down.
  await until('nothing listens on any of them', async () => !(await Promise.all(urls.map(isListening))).includes(true));
});

/** Name that each engine gives itself. */
const EXPECTED = { mongod: 'mongod', rust: 'secantusd-rs', python: 'SecantusDB' };

t.test('a temporary server runs the requested engine, even if EXAMHALL_ENGINE names another', async (t) => {
  const { name } = chooseEngine(process.env);
  process.env.EXAMHALL_ENGINE = 'no such engine';
  const services = await startThrowAwayServices({ engine: name, redis: false });
  t.teardown(services.close);
  const server = await identifyMongodb(services.mongodb?.url ?? '');
  t.match(server, new RegExp(`^${EXPECTED[name]} .*\\d+\\.\\d+\\.\\d+`));
});
