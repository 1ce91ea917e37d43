import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
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
import { enginesHere } from '#scripts/services/mongodb.ts';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';
import { type Measure, openProgress } from './ground.ts';
import { identifyMongodb, machineLines, redisLine } from './machine.ts';
import { type Run, readOptions } from './options.ts';
import { notesOf, textTable, writeReport } from './report.ts';
import type { ReportRow } from './row.ts';

/**
 * `npm run bench`: every measure in its order on every engine of this machine, a table, and `docs/bench.md` when all were run
 * at full length. Exits 0 whatever the ratios are, 1 when something could not be measured at all.
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
/** Measures in which no MongoDB takes part. */
const WITHOUT_MONGODB: ReadonlySet<string> = new Set(['http', 'jobs']);
const DOCS = path.resolve(import.meta.dirname, '../../docs');

const progress = openProgress(process.stderr);
const options = optionsOrExit();
const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));

const { MONGODB_URL = '', REDIS_URL } = process.env;
const rows: ReportRow[] = [];
const failed: string[] = [];
const mongodbLines = new Set<string>();
const redisLines = new Set<string>();
for (const run of options.runs) {
  const title = run.on === null ? run.measure : `${run.measure} on ${run.on}`;
  progress.begin(title);
  try {
    rows.push(...(await perform(run)));
  } catch (error) {
    // The others are worth having all the same.
    failed.push(title);
    progress.say(`${title} failed: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
  }
  progress.end();
}
const machine = machineLines([...mongodbLines, ...redisLines]);
console.log(['', textTable(rows), '', ...notesOf(rows), '', ...machine, ''].join('\n'));
if (failed.length > 0) {
  process.exitCode = 1;
  console.log(`Could not be measured: ${failed.join(', ')}. docs/bench.md stays as it is.`);
} else if (!options.whole) {
  console.log('docs/bench.md is written by a full run only.');
} else {
  writeReport(DOCS, rows, machine);
  console.log('Written: docs/bench.md, docs/bench.svg');
}
process.exit();

async function perform({ measure: name, on }: Run): Promise<ReportRow[]> {
  const measure = MEASURES[name];
  if (measure === undefined) throw new Error(`no measure is named ${name}`);
  // Databases of its own for each: a stand-in still deletes a large one long after its command has returned.
  const services = await startThrowAwayServices({
    ...(on === null || on === 'MONGODB_URL' ? { mongodb: false } : { engine: on }),
    redis: !REDIS_URL,
    say: progress.say,
  });
  try {
    const mongodbUrl = on === 'MONGODB_URL' ? MONGODB_URL : (services.mongodb?.url ?? '');
    const redisUrl = REDIS_URL || services.redis?.url || '';
    const server = on === null ? null : await identifyMongodb(mongodbUrl);
    if (server !== null) mongodbLines.add(`MongoDB: ${server.is}`);
    redisLines.add(await redisLine(redisUrl));
    const measured = await measure({ mongodbUrl, redisUrl, quick: options.quick, progress, folder });
    return measured.map((row) => ({ ...row, engine: server?.engine ?? null }));
  } finally {
    await services.close();
  }
}

function optionsOrExit() {
  try {
    const measures = Object.keys(MEASURES).map((name) => ({ name, mongodb: !WITHOUT_MONGODB.has(name) }));
    const engines = enginesHere(process.env).map(({ name }) => name);
    return readOptions(process.argv.slice(2), { measures, engines, env: process.env });
  } catch (error) {
    console.error(`error: ${error instanceof Error ? error.message : error}`);
    process.exit(2);
  }
}
