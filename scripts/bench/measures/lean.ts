import { execFile } from 'node:child_process';
import { cpSync, lstatSync, mkdtempSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { residentMiB, startChild } from '#scripts/bench/child.ts';
import type { BenchContext, Measure } from '#scripts/bench/context.ts';
import { figuresOf, type Row } from '#scripts/bench/row.ts';
import { openStage } from '#scripts/bench/stage.ts';
import { freePort } from '#scripts/services/port.ts';
import { ACTORS } from '#workers/actors.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
/** A worker frees the garbage of its start after three seconds. */
const IDLE_MS = 10_000;
const BOTH_ENABLED = { AI_CLASSIFIER_WORKER_ENABLED: '1', AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1' };

/** Upper bounds. They are of the product, not of another program, so the reference of a row is its own aim. */
const AIMS = { workerMiB: 100, clusterMiB: 1_100, readyS: 4, productionMiB: 90 } as const;

/** Measures what the cluster takes while it does nothing, how fast it starts, and the size of a production installation. */
export const measureLean: Measure = async (context) => {
  const memory = await idleMemory(context);
  const workers = [...memory].filter(([name]) => name !== 'web');
  const list = [...memory].map(([name, mib]) => `${name} ${mib.toFixed(0)}`).join(', ');
  const sum = [...memory.values()].reduce((total, mib) => total + mib, 0);
  const starts = await warmStarts(context, context.quick ? 1 : 5);
  return [
    rowOf('an idle worker', 'MiB', figuresOf(workers.map(([, mib]) => mib)), AIMS.workerMiB, [
      `resident memory ${IDLE_MS / 1_000} s after the start, of which some 50 MiB are shared pages of Node; the p99 is the largest worker`,
      `MiB: ${list}`,
    ]),
    rowOf('an idle cluster', 'MiB', { p50: sum, p99: sum }, AIMS.clusterMiB, ['one process of each type; no stores']),
    rowOf('npm start to ready, warm', 's', figuresOf(starts), AIMS.readyS, [
      'packages, stores and data exist, modules are compiled; all process types and both stores start on the same cores',
    ]),
    rowOf('a production installation', 'MiB', await productionSize(context), AIMS.productionMiB, [
      '`npm ci --omit=dev`: space on disk of node_modules',
    ]),
  ];
};

function rowOf(name: string, unit: Row['unit'], ours: Row['ours'], aim: number, notes: readonly string[]): Row {
  const reference = { p50: aim, p99: aim };
  return { name, unit, ours, reference, against: 'its aim', aim: { side: 'most', ratio: 1 }, notes };
}

/** Starts one process of each type and returns their resident memory once they have been idle for a while. */
async function idleMemory(context: BenchContext): Promise<Map<string, number>> {
  const stage = await openStage(context, ['web', ...Object.keys(ACTORS)], BOTH_ENABLED);
  try {
    await delay(IDLE_MS);
    return new Map([...stage.processes].map(([name, { pid }]) => [name, residentMiB(pid)]));
  } finally {
    await stage.close();
  }
}

/** Returns the seconds from `npm start` to its line `ready`, after one start that creates the data. */
async function warmStarts(context: BenchContext, starts: number): Promise<number[]> {
  const { MONGODB_URL: _mongodb, REDIS_URL: _redis, ...rest } = process.env;
  const env = { ...rest, PORT: String(await freePort()), DATA_DIR: path.join(context.folder, 'lean') };
  const seconds: number[] = [];
  for (let start = 0; start <= starts; start++) {
    const from = performance.now();
    const child = await startChild({
      name: 'start',
      args: ['scripts/bootstrap.mjs', 'scripts/dev.ts'],
      env,
      readyWhen: 'ready http',
      folder: context.folder,
      timeoutMs: 120_000,
      stopMs: 30_000,
    });
    if (start > 0) seconds.push((performance.now() - from) / 1_000);
    await child.stop();
    context.progress.step(start + 1, starts + 1);
  }
  return seconds;
}

/** Installs the production packages into a new folder and returns the space that they take. */
async function productionSize(context: BenchContext): Promise<Row['ours']> {
  const folder = mkdtempSync(path.join(context.folder, 'production-'));
  for (const file of ['package.json', 'package-lock.json', '.npmrc']) {
    cpSync(path.join(ROOT, file), path.join(folder, file));
  }
  await promisify(execFile)('npm', ['ci', '--omit=dev', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: folder,
  });
  const bytes = readdirSync(path.join(folder, 'node_modules'), { recursive: true, encoding: 'utf8' })
    .map((entry) => lstatSync(path.join(folder, 'node_modules', entry)).blocks * 512)
    .reduce((total, size) => total + size, 0);
  return { p50: bytes / 2 ** 20, p99: bytes / 2 ** 20 };
}
