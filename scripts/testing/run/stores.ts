import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { identify, isAlive, type ProcessIdentity } from '#scripts/start/supervisor/processes.ts';
import { startThrowAwayServices, type ThrowAwayOptions, type ThrowAwayServices } from '#testing/stores/throw-away.ts';

/**
 * The MongoDB and the Redis of each lane of one run of tap. A lane is the files that run one after the other under one TAP_JOB_ID, so no
 * file slows down or drops the databases of another. The servers outlive the program that starts them; their record ends them.
 */
interface StoresOfRun {
  readonly runner: ProcessIdentity;
  /** Environment of a test file by its TAP_JOB_ID: the addresses that the user did not set. */
  readonly lanes: readonly NodeJS.ProcessEnv[];
  readonly processes: readonly ProcessIdentity[];
  readonly folders: readonly string[];
}

const RECORDS = path.resolve(import.meta.dirname, '../../../.cache/test-stores');
const recordOf = (runner: number): string => path.join(RECORDS, `${runner}.json`);

/** Starts the stores of `count` lanes for the runner. A store whose address is in the environment is shared by all lanes. */
export async function startStores(runner: number, count: number): Promise<void> {
  const { MONGODB_URL, REDIS_URL } = process.env;
  const wanted = { mongodb: !MONGODB_URL, redis: !REDIS_URL, outlives: true };
  const say = (line: string) => void process.stderr.write(`${line}\n`);
  const all: ThrowAwayServices[] = [];
  const start = async (options: ThrowAwayOptions) => void all.push(await startThrowAwayServices(options));
  try {
    // The first start installs the servers; the others find them.
    await start({ ...wanted, say });
    const others = await Promise.allSettled(Array.from({ length: count - 1 }, () => start(wanted)));
    for (const other of others) if (other.status === 'rejected') throw other.reason;
  } catch (error) {
    // No record names these servers yet, so nothing else would end them.
    await Promise.all(all.map((services) => services.close()));
    throw error;
  }

  const identity = identify(runner);
  if (identity === undefined) throw new Error(`the runner ${runner} has ended`);
  const pids = all.flatMap(({ mongodb, redis }) => [mongodb?.pid(), redis?.pid()]);
  const record: StoresOfRun = {
    runner: identity,
    lanes: all.map(({ mongodb, redis }) => ({
      ...(mongodb && { MONGODB_URL: mongodb.url, TEST_STORES_THROWN_AWAY: '1' }),
      ...(redis && { REDIS_URL: redis.url }),
    })),
    processes: pids.flatMap((pid) => (pid === undefined ? [] : (identify(pid) ?? []))),
    folders: all.map(({ folder }) => folder),
  };
  mkdirSync(RECORDS, { recursive: true });
  writeFileSync(recordOf(runner), JSON.stringify(record));
}

/** Returns the addresses for a test file of this runner in this lane; none if the runner started no stores. */
export function storesOf(runner: number, lane: string): NodeJS.ProcessEnv {
  return read(recordOf(runner))?.lanes[Number(lane)] ?? {};
}

/** Ends the stores of a runner, if it has any, and deletes their data. */
export function endStores(runner: number): void {
  const file = recordOf(runner);
  const { processes = [], folders = [] } = read(file) ?? {};
  for (const identity of processes) if (isAlive(identity)) process.kill(identity.pid, 'SIGKILL');
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  rmSync(file, { force: true });
}

/** Ends the stores of runners that were killed before they could end them. */
export function endAbandonedStores(): void {
  mkdirSync(RECORDS, { recursive: true });
  for (const name of readdirSync(RECORDS)) {
    const record = read(path.join(RECORDS, name));
    if (record !== undefined && !isAlive(record.runner)) endStores(record.runner.pid);
  }
}

function read(file: string): StoresOfRun | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as StoresOfRun;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}
