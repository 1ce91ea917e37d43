import path from 'node:path';
import { parseArgs } from 'node:util';
import { openProgress } from '#scripts/progress.ts';
import { NoEarlierRelease } from '#scripts/rolling/earlier-release.ts';
import { type RollingPlan, runRolling } from '#scripts/rolling/run-rolling.ts';
import type { Verdict } from '#scripts/rolling/verify.ts';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';

const USAGE = `npm run rolling -- [options]

  --from REVISION     earlier release: a tag, branch or commit (default: the last release tag before HEAD, otherwise the last commit
                      before the one that introduced the present schema version)
  --students N        students who sit exams at the same time, 1 to 200 (default 6)
  --sittings N        sittings that each mixture of the releases finishes at least, 1 to 10000 (default 30)
  --saves N           saves of each attempt that the earlier release left open, in each mixture, 0 to 100 (default 5)
  --restarts N        rolling restarts of the present release at the end, 0 to 1000 (default 4)
  --present FOLDER    checkout of the present release (default: this one)
  --share-packages    let the earlier release use the packages of this checkout if those that it imports itself have the same versions
                      (default: only if every package for production has the same version; otherwise npm installs its own)

Starts an earlier release and the present one on one database and one Redis, in every mixture, under load, and checks that nothing is lost
or done twice. MONGODB_URL and REDIS_URL name servers to use; by default it starts its own.
Exit code: 0 every promise was kept; 1 one was broken; 2 the history has no earlier release; 64 an option is invalid.
`;

const SHOWN_FAULTS = 8;

// Stores and processes are killed when this process exits.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));
process.exitCode = await main(process.argv.slice(2));
// Connections of stopped processes may still be open.
process.exit();

async function main(args: string[]): Promise<number> {
  const options = read(args);
  if (options === 'help') {
    console.log(USAGE);
    return 0;
  }
  if (options === null) {
    console.error(USAGE);
    return 64;
  }
  const progress = openProgress(process.stdout);
  const { MONGODB_URL, REDIS_URL } = process.env;
  const began = performance.now();
  const own = await startThrowAwayServices({
    mongodb: MONGODB_URL === undefined,
    redis: REDIS_URL === undefined,
    durable: true,
    say: (line) => progress.line(line),
  });
  try {
    const plan: RollingPlan = {
      root: path.resolve(import.meta.dirname, '..'),
      mongodbUrl: MONGODB_URL ?? own.mongodb?.url ?? '',
      redisUrl: REDIS_URL ?? own.redis?.url ?? '',
      ...options,
    };
    const { verdicts } = await runRolling(plan, progress);
    for (const line of verdictTable(verdicts)) progress.line(line);
    const faults = verdicts.reduce((sum, verdict) => sum + verdict.faults.length, 0);
    const seconds = Math.round((performance.now() - began) / 1_000);
    progress.line(faults === 0 ? `every promise was kept (${seconds} s)` : `${faults} faults (${seconds} s)`);
    return faults === 0 ? 0 : 1;
  } catch (error) {
    if (error instanceof NoEarlierRelease) {
      console.error(`error: ${error.message}`);
      return 2;
    }
    console.error(error);
    return 1;
  } finally {
    await own.close();
  }
}

function read(args: string[]) {
  try {
    const { values } = parseArgs({
      args,
      options: {
        help: { type: 'boolean', short: 'h' },
        from: { type: 'string' },
        present: { type: 'string' },
        'share-packages': { type: 'boolean', default: false },
        students: { type: 'string', default: '6' },
        sittings: { type: 'string', default: '30' },
        saves: { type: 'string', default: '5' },
        restarts: { type: 'string', default: '4' },
      },
    });
    if (values.help === true) return 'help';
    const { from, present } = values;
    const numbers = [values.students, values.sittings, values.saves, values.restarts].map(Number);
    const [students = 0, sittings = 0, saves = 0, restarts = 0] = numbers;
    const isValid =
      numbers.every((number) => Number.isInteger(number) && number >= 0) &&
      [students, sittings].every((number) => number > 0) &&
      students <= 200 &&
      sittings <= 10_000 &&
      saves <= 100 &&
      restarts <= 1_000;
    if (!isValid) return null;
    return {
      from,
      present,
      mayShareDirect: values['share-packages'],
      students,
      sittings,
      saves,
      restarts,
    };
  } catch (error) {
    console.error(`error: ${error instanceof Error ? error.message : error}`);
    return null;
  }
}

/** Returns the lines of the report: a row for each promise, and below it the first faults. */
function verdictTable(verdicts: readonly Verdict[]): string[] {
  const width = Math.max(...verdicts.map(({ what }) => what.length));
  return [
    '',
    `  ${'promise'.padEnd(width)}  checked  faults`,
    ...verdicts.flatMap(({ what, checked, faults }) => [
      `${faults.length === 0 ? '✓' : '✗'} ${what.padEnd(width)}  ${String(checked).padStart(7)}  ${String(faults.length).padStart(6)}`,
      ...faults.slice(0, SHOWN_FAULTS).map((fault) => `      ${fault}`),
      ...(faults.length > SHOWN_FAULTS ? [`      … and ${faults.length - SHOWN_FAULTS} more`] : []),
    ]),
    '',
  ];
}
