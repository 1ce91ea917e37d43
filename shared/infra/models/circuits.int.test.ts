import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { openSharedCells, type SharedCells } from '#infra/redis/shared-cells.ts';
import type { CircuitRules } from '#shared/classifier/provider/circuit.ts';
import type { Target } from '#shared/classifier/provider/target.ts';
import { captureLog } from '#testing/captured-log.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { openCircuits } from './circuits.ts';

const RULES: CircuitRules = { failures: 3, cooldownMs: 1_000, probeMs: 5_000 };
const TARGET: Target = {
  provider: 'openai',
  model: 'm-1',
  baseUrl: 'https://x.example',
  origin: 'https://x.example',
  mayBePrivate: false,
  key: 'k',
};

/** Opens the cells of one process, separate for this test, and waits until Redis answers. */
async function cellsOf(t: Test, prefix: string): Promise<SharedCells> {
  const cells = openSharedCells({
    redisUrl: requiredEnv('REDIS_URL'),
    log: captureLog(),
    purpose: 'test',
    prefix,
    lifetimeMs: 60_000,
    boundMs: 60_000,
  });
  t.teardown(() => cells.close());
  await until('Redis answers', async () => (await cells.update('ready', () => 'yes')).kind === 'cell');
  return cells;
}

async function processes(t: Test, count: number) {
  const prefix = `test:${randomUUID()}`;
  const clock = { now: 1_000_000 };
  const circuits = await Promise.all(
    Array.from({ length: count }, async () =>
      openCircuits({ rules: RULES, now: () => clock.now, log: captureLog(), shared: await cellsOf(t, prefix) }),
    ),
  );
  return { clock, circuits };
}

t.test('processes count the failures of a provider together, and only one makes the trial', async (t) => {
  const { clock, circuits } = await processes(t, 5);
  await Promise.all(circuits.slice(0, 3).map((circuit) => circuit.report(TARGET, { kind: 'failure' }, false)));
  for (const circuit of circuits) {
    t.strictSame(await circuit.admit(TARGET), { kind: 'open', retryAfterMs: 1_000 });
  }
  clock.now += 1_000;
  const admitted = await Promise.all(circuits.map((circuit) => circuit.admit(TARGET)));
  t.equal(admitted.filter(({ kind }) => kind === 'trial').length, 1);
  t.match(await circuits[0]?.admit({ ...TARGET, model: 'm-2' }), { kind: 'call' }, 'another model is another circuit');
  const trial = circuits[admitted.findIndex(({ kind }) => kind === 'trial')];
  await trial?.report(TARGET, { kind: 'success' }, true);
  for (const circuit of circuits) t.match(await circuit.admit(TARGET), { kind: 'call' });
});

t.test('a circuit counts all concurrent results', async (t) => {
  const { circuits } = await processes(t, 8);
  await Promise.all(circuits.map((circuit) => circuit.report(TARGET, { kind: 'throttle', waitMs: 7 }, false)));
  await Promise.all(circuits.slice(0, 2).map((circuit) => circuit.report(TARGET, { kind: 'failure' }, false)));
  t.match(await circuits[7]?.read(TARGET), { failures: 2, throttledUntil: 1_000_007 });
});

t.test('without Redis each process continues from the last state that it knew', async (t) => {
  const prefix = `test:${randomUUID()}`;
  const cells = await cellsOf(t, prefix);
  let isUnavailable = false;
  const shared: SharedCells = {
    ...cells,
    update: async (key, change) => (isUnavailable ? { kind: 'unavailable' } : cells.update(key, change)),
  };
  const circuit = openCircuits({ rules: RULES, now: () => 1_000, log: captureLog(), shared });
  await circuit.report(TARGET, { kind: 'failure' }, false);
  await circuit.report(TARGET, { kind: 'failure' }, false);
  isUnavailable = true;
  await circuit.report(TARGET, { kind: 'failure' }, false);
  t.match(await circuit.admit(TARGET), { kind: 'open' });
});

t.test('an invalid cell is treated as a closed circuit', async (t) => {
  const prefix = `test:${randomUUID()}`;
  const cells = await cellsOf(t, prefix);
  const circuit = openCircuits({
    rules: RULES,
    now: () => 1_000,
    log: captureLog(),
    shared: { ...cells, update: (key, change) => cells.update(key, (text) => change(text ?? 'nonsense')) },
  });
  t.match(await circuit.admit(TARGET), { kind: 'call' });
  await circuit.report(TARGET, { kind: 'failure' }, false);
  t.match(await circuit.read(TARGET), { failures: 1 });
});
