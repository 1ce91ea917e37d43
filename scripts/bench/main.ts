import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { measureClassify } from '#scripts/bench/measures/classify.ts';
import { measureDelivery } from '#scripts/bench/measures/delivery.ts';
import { measureFanOut } from '#scripts/bench/measures/fan-out.ts';
import { measureHttp } from '#scripts/bench/measures/http.ts';
import { measureInbox } from '#scripts/bench/measures/inbox.ts';
import { measureJobs } from '#scripts/bench/measures/jobs.ts';
import { measureLogin } from '#scripts/bench/measures/login.ts';
import { measurePreview } from '#scripts/bench/measures/preview.ts';
import { measureRefresh } from '#scripts/bench/measures/refresh.ts';
import { measureRelease } from '#scripts/bench/measures/release.ts';
import { measureSaveAnswer } from '#scripts/bench/measures/save-answer.ts';
import { measureStart } from '#scripts/bench/measures/start.ts';
import { measureSubmit } from '#scripts/bench/measures/submit.ts';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';
import { type Measure, openProgress } from './ground.ts';
import { machineLines, notesOf, textTable, writeReport } from './report.ts';
import type { Row } from './row.ts';

/**
 * `npm run bench`: every measure in its order, a table, and `docs/bench.md` when all were run at full length. Exits 0
 * whatever the ratios are, 1 when something could not be measured at all.
 */
const MEASURES: Readonly<Record<string, Measure>> = {
  save: measureSaveAnswer,
  submit: measureSubmit,
  http: measureHttp,
  jobs: measureJobs,
  start: measureStart,
  login: measureLogin,
  refresh: measureRefresh,
  release: measureRelease,
  fanout: measureFanOut,
  inbox: measureInbox,
  delivery: measureDelivery,
  classify: measureClassify,
  preview: measurePreview,
};
const DOCS = path.resolve(import.meta.dirname, '../../docs');

const progress = openProgress(process.stderr);
const options = optionsOrExit();
const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));

const { MONGODB_URL, REDIS_URL } = process.env;
const rows: Row[] = [];
const failed: string[] = [];
let machine: string[] = [];
for (const [name, measure] of Object.entries(MEASURES)) {
  if (options.only.length > 0 && !options.only.includes(name)) continue;
  progress.begin(name);
  // Databases of its own for each: the stand-in is busy with taking a large one away long after it was told to.
  const services = await startThrowAwayServices({ mongodb: !MONGODB_URL, redis: !REDIS_URL, say: progress.say });
  const mongodbUrl = MONGODB_URL || services.mongodb?.url || '';
  const redisUrl = REDIS_URL || services.redis?.url || '';
  try {
    rows.push(...(await measure({ mongodbUrl, redisUrl, quick: options.quick, progress, folder })));
    machine = await machineLines({ mongodbUrl, redisUrl });
  } catch (error) {
    // The others are worth having all the same.
    failed.push(name);
    progress.say(`${name} failed: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
  } finally {
    await services.close();
  }
  progress.end();
}
console.log(['', textTable(rows), '', ...notesOf(rows), '', ...machine, ''].join('\n'));
if (failed.length > 0) {
  process.exitCode = 1;
  console.log(`Could not be measured: ${failed.join(', ')}. docs/bench.md stays as it is.`);
} else if (options.quick || options.only.length > 0) {
  console.log('docs/bench.md is written by a full run only.');
} else {
  writeReport(DOCS, rows, machine);
  console.log('Written: docs/bench.md, docs/bench.svg');
}
process.exit();

function optionsOrExit() {
  try {
    return readOptions(process.argv.slice(2), Object.keys(MEASURES));
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : error}`);
    process.exit(2);
  }
}

interface BenchOptions {
  /** Names of the measures to run; empty = all. */
  only: readonly string[];
  /** Fewer rounds: shows that it works, not how fast it is. */
  quick: boolean;
}

/** Reads `--only NAME` (repeatable) and `--quick`. @throws Error that names what is wrong */
function readOptions(args: readonly string[], known: readonly string[]): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: { only: { type: 'string', multiple: true }, quick: { type: 'boolean' } },
  });
  const only = values.only ?? [];
  const unknown = only.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`no measure is named ${unknown.join(', ')}; there are: ${known.join(', ')}`);
  return { only, quick: values.quick ?? false };
}
