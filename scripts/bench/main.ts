import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { measureClassify } from '#scripts/bench/measures/classify.ts';
import { measureDelivery } from '#scripts/bench/measures/delivery.ts';
import { measureExamMorning } from '#scripts/bench/measures/exam-morning.ts';
import { measureFanOut } from '#scripts/bench/measures/fan-out.ts';
import { measureFlat } from '#scripts/bench/measures/flat.ts';
import { measureHttp } from '#scripts/bench/measures/http.ts';
import { measureInbox } from '#scripts/bench/measures/inbox.ts';
import { measureJobs } from '#scripts/bench/measures/jobs.ts';
import { measureLean } from '#scripts/bench/measures/lean.ts';
import { measureLogin } from '#scripts/bench/measures/login.ts';
import { measurePreview } from '#scripts/bench/measures/preview.ts';
import { measureRefresh } from '#scripts/bench/measures/refresh.ts';
import { measureRelease } from '#scripts/bench/measures/release.ts';
import { measureSaveAnswer } from '#scripts/bench/measures/save-answer.ts';
import { measureSaveCpu } from '#scripts/bench/measures/save-cpu.ts';
import { measureStart } from '#scripts/bench/measures/start.ts';
import { measureStrangers } from '#scripts/bench/measures/strangers.ts';
import { measureStretches } from '#scripts/bench/measures/stretches.ts';
import { measureSubmit } from '#scripts/bench/measures/submit.ts';
import { enginesHere } from '#scripts/services/mongodb.ts';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';
import { type Measure, openProgress } from './context.ts';
import { identifyMongodb, machineLines, redisLine } from './machine.ts';
import { codeDigest, openMeasured, type Result } from './measured.ts';
import { measureNotices, measureSubmits } from './measures/rates.ts';
import { type Run, readOptions, usageOf } from './options.ts';
import { notesOf, SECTIONS, textTable, writeReport, writeSection } from './report.ts';

/**
 * `npm run bench`: runs every measure on every engine of this machine and prints a table. A full run also writes `docs/bench.md`, and a
 * run of `exam-morning` or `stretches` the section of that measure. Exits with 0 for any ratio, with 1 if a measure failed, with 2 if the options are invalid.
 */
const MEASURES: Readonly<Record<string, Measure>> = {
  save: measureSaveAnswer,
  savecpu: measureSaveCpu,
  flat: measureFlat,
  submit: measureSubmit,
  submits: measureSubmits,
  notices: measureNotices,
  http: measureHttp,
  jobs: measureJobs,
  start: measureStart,
  login: measureLogin,
  refresh: measureRefresh,
  strangers: measureStrangers,
  release: measureRelease,
  fanout: measureFanOut,
  inbox: measureInbox,
  delivery: measureDelivery,
  classify: measureClassify,
  preview: measurePreview,
  lean: measureLean,
  'exam-morning': measureExamMorning,
  stretches: measureStretches,
};
/** Measures without MongoDB. */
const WITHOUT_MONGODB: ReadonlySet<string> = new Set(['savecpu', 'http', 'jobs']);
/** Measures that run only by name, because they take minutes on each engine. */
const BY_NAME: ReadonlySet<string> = new Set(Object.keys(SECTIONS));
const ROOT = path.resolve(import.meta.dirname, '../..');
const DOCS = path.join(ROOT, 'docs');

// Each child process adds a listener.
process.setMaxListeners(40);
const progress = openProgress(process.stderr);
const options = optionsOrExit();
const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));

const { MONGODB_URL = '', REDIS_URL } = process.env;
const measured = options.whole ? openMeasuredOrExit() : null;
const results: Result[] = [];
const failed: string[] = [];
for (const run of options.runs) {
  const title = run.on === null ? run.measure : `${run.measure} on ${run.on}`;
  const earlier = measured?.get(title);
  if (earlier !== undefined) {
    results.push(earlier);
    continue;
  }
  progress.begin(title);
  try {
    const result = await perform(run);
    results.push(result);
    measured?.add(title, result);
  } catch (error) {
    // Continue: the remaining measures are useful without this one.
    failed.push(title);
    progress.line(`${title} failed: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
  }
  progress.end();
}
const rows = results.flatMap((result) => result.rows);
const machine = machineLines([...new Set(results.flatMap(({ servers }) => servers))].toSorted());
console.log(['', textTable(rows), '', ...notesOf(rows), '', ...machine, ''].join('\n'));
if (failed.length > 0) {
  process.exitCode = 1;
  console.log(`Failed measures: ${failed.join(', ')}. docs/bench.md is unchanged.`);
  if (measured !== null) console.log('`npm run bench -- --resume` keeps the finished measures and runs the others.');
} else if (options.whole) {
  writeReport(DOCS, rows, machine);
  measured?.forget();
  console.log('Written: docs/bench.md, docs/bench.svg');
} else if (!options.quick && options.runs.every((run) => BY_NAME.has(run.measure))) {
  for (const [name, section] of Object.entries(SECTIONS)) {
    const own = results.filter(({ measure }) => measure === name).flatMap((result) => result.rows);
    if (own.length > 0) writeSection(DOCS, section, own, machine);
  }
  console.log('Written: the sections of docs/bench.md');
} else {
  console.log('docs/bench.md is unchanged: only a full run writes it.');
}
process.exit();

async function perform({ measure: name, on }: Run): Promise<Result> {
  const measure = MEASURES[name];
  if (measure === undefined) throw new Error(`unknown measure ${name}`);
  // Each measure has its own servers, because a stand-in goes on deleting a large database long after its command has returned.
  const services = await startThrowAwayServices({
    ...(on === null || on === 'MONGODB_URL' ? { mongodb: false } : { engine: on }),
    redis: !REDIS_URL,
    say: progress.line,
  });
  try {
    const mongodbUrl = on === 'MONGODB_URL' ? MONGODB_URL : (services.mongodb?.url ?? '');
    const redisUrl = REDIS_URL || services.redis?.url || '';
    const stores = { mongodb: services.mongodb?.pid(), redis: services.redis?.pid() };
    const server = on === null ? null : await identifyMongodb(mongodbUrl);
    const servers = [...(server === null ? [] : [`MongoDB: ${server.is}`]), await redisLine(redisUrl)];
    const rows = await measure({ mongodbUrl, redisUrl, stores, quick: options.quick, progress, folder });
    return { measure: name, rows: rows.map((row) => ({ ...row, engine: server?.engine ?? null })), servers };
  } finally {
    await services.close();
  }
}

function optionsOrExit() {
  const measures = Object.keys(MEASURES).map((name) => ({
    name,
    mongodb: !WITHOUT_MONGODB.has(name),
    named: BY_NAME.has(name),
  }));
  const args = process.argv.slice(2);
  if (args.includes('--help') || args.includes('-h')) {
    console.log(usageOf({ measures }));
    process.exit(0);
  }
  return orExit(() => {
    const engines = enginesHere(process.env).map(({ name }) => name);
    return readOptions(args, { measures, engines, env: process.env });
  });
}

function openMeasuredOrExit() {
  return orExit(() => openMeasured(path.join(ROOT, '.cache/bench/measured.json'), codeDigest(ROOT), options));
}

function orExit<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    console.error(`error: ${error instanceof Error ? error.message : error}`);
    process.exit(2);
  }
}
