import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { measureBoard } from '#scripts/bench/measures/board.ts';
import { measureExamMorning } from '#scripts/bench/measures/exam-morning.ts';
import { measureFanOut } from '#scripts/bench/measures/fan-out.ts';
import { measureHttp } from '#scripts/bench/measures/http.ts';
import { measureJobs } from '#scripts/bench/measures/jobs.ts';
import { measureLogin } from '#scripts/bench/measures/login.ts';
import { measurePlain } from '#scripts/bench/measures/plain.ts';
import { measureStretches } from '#scripts/bench/measures/stretches.ts';
import { openProgress } from '#scripts/start/progress.ts';
import { type EngineName, enginesHere } from '#scripts/start/services/mongodb.ts';
import { startThrowAwayServices } from '#testing/stores/throw-away.ts';
import { identifyMongodb, machineLines, redisLine } from './machine.ts';
import type { Measure, Row } from './measure.ts';
import { installPeers } from './peers.ts';
import { markdownTable, noteLines, withFigures } from './report.ts';

/**
 * `npm run bench`: runs the measures on the best engine of this machine and prints their rows. A full run also writes the figures of
 * docs/bench.md, and a run of one of the two long measures its own part. Exits with 0 for any ratio, with 1 if a measure failed,
 * with 2 if an option is invalid.
 */
const MEASURES: Readonly<Record<string, Measure>> = {
  plain: measurePlain,
  http: measureHttp,
  jobs: measureJobs,
  login: measureLogin,
  fanout: measureFanOut,
  board: measureBoard,
  'exam-morning': measureExamMorning,
  stretches: measureStretches,
};
const WITHOUT_MONGODB: readonly string[] = ['http', 'jobs'];
/** Measures that run only by name, because they take minutes. */
const BY_NAME: readonly string[] = ['exam-morning', 'stretches'];
const PAGE = path.resolve(import.meta.dirname, '../../docs/bench.md');
const USAGE = `npm run bench -- [--quick] [--engine NAME] [measure …]

  --quick         fewer rounds: shows that the bench works, not how fast the product is
  --engine NAME   this MongoDB of those of the machine (default: the best, or the server of MONGODB_URL)

Measures: ${Object.keys(MEASURES).join(', ')}; by default all but ${BY_NAME.join(' and ')}.
Exit code: 0 for any ratio; 1 a measure failed; 2 an option is invalid.`;

// Each child process adds a listener.
process.setMaxListeners(40);
const progress = openProgress(process.stderr);
const { MONGODB_URL, REDIS_URL, EXAMHALL_ENGINE } = process.env;
const { measures, engine, quick, isWhole } = optionsOrExit();
installPeers(progress.line);
const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));

const rows = new Map<string, Row[]>();
const servers = new Set<string>();
const failed: string[] = [];
for (const name of measures) {
  progress.begin(name, 0);
  try {
    rows.set(name, await rowsOf(name));
    progress.end('measured');
  } catch (error) {
    // Continue: the remaining measures are useful without this one.
    failed.push(name);
    progress.end(`failed: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
  }
}
const all = [...rows.values()].flat();
const machine = machineLines([...servers].toSorted());
console.log(['', markdownTable(all), '', ...noteLines(all), '', ...machine, ''].join('\n'));
if (failed.length > 0) console.log(`Failed measures: ${failed.join(', ')}. docs/bench.md is unchanged.`);
else if (isWhole) write('all', all);
else if (!quick) for (const name of BY_NAME) write(name, rows.get(name) ?? []);
process.exit(failed.length > 0 ? 1 : 0);

async function rowsOf(name: string): Promise<Row[]> {
  const needsMongodb = !WITHOUT_MONGODB.includes(name);
  // Each measure has its own servers, because a stand-in goes on deleting a large database long after its command has returned.
  const services = await startThrowAwayServices({
    ...(needsMongodb && engine !== undefined ? { engine } : { mongodb: false }),
    redis: !REDIS_URL,
    durable: true,
    say: progress.line,
  });
  try {
    const mongodbUrl = services.mongodb?.url ?? MONGODB_URL ?? '';
    const redisUrl = REDIS_URL || services.redis?.url || '';
    const stores = { mongodb: services.mongodb?.pid(), redis: services.redis?.pid() };
    if (needsMongodb) servers.add(`MongoDB: ${await identifyMongodb(mongodbUrl)}`);
    servers.add(await redisLine(redisUrl));
    return (await MEASURES[name]?.({ mongodbUrl, redisUrl, stores, quick, progress, folder })) ?? [];
  } finally {
    await services.close();
  }
}

function write(name: string, figures: readonly Row[]): void {
  if (figures.length === 0) return;
  writeFileSync(PAGE, withFigures(readFileSync(PAGE, 'utf8'), name, figures, machine));
  console.log(`Written: the figures of ${name} in docs/bench.md`);
}

function optionsOrExit() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        engine: { type: 'string' },
        quick: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h' },
      },
    });
    if (values.help) {
      console.log(USAGE);
      process.exit(0);
    }
    for (const name of positionals) if (!(name in MEASURES)) throw new Error(`unknown measure ${name}`);
    const names = Object.keys(MEASURES).filter((name) =>
      positionals.length === 0 ? !BY_NAME.includes(name) : positionals.includes(name),
    );
    const wanted = values.engine ?? (EXAMHALL_ENGINE || undefined);
    const isWhole = !values.quick && positionals.length === 0 && wanted === undefined;
    return { measures: names, engine: engineOf(wanted), quick: values.quick, isWhole };
  } catch (error) {
    console.error(`error: ${error instanceof Error ? error.message : error}\n\n${USAGE}`);
    process.exit(2);
  }
}

/** Returns the engine to start; undefined: the server of MONGODB_URL serves. @throws Error if this machine cannot run it */
function engineOf(wanted: string | undefined): EngineName | undefined {
  if (MONGODB_URL) return undefined;
  const here = enginesHere(process.env).map(({ name }) => name);
  const found = wanted === undefined ? here[0] : here.find((name) => name === wanted);
  if (found === undefined) throw new Error(`this machine cannot run ${wanted ?? 'any MongoDB'}; it can run: ${here}`);
  return found;
}
