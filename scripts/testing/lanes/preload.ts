import asyncHooks from 'node:async_hooks';
import { mkdirSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import processOnSpawn from 'process-on-spawn';
import { isPure } from '#scripts/checks/test-files.ts';
import { identify } from '#scripts/supervisor/process-identity.ts';
import { keeperFolder, pidsIn, prepareLane } from './keeper-link.ts';

/**
 * Loaded by the runner, and by tap (`node-arg` in .taprc), into every test file, before the file. A file that needs stores finds MONGODB_URL and
 * REDIS_URL of its lane in its environment; a pure file starts nothing.
 */
const { TAP_JOB_ID: lane, _TAPJS_PROCESSINFO_COVERAGE_: coverage } = process.env;
followNoPromises();
if (coverage === '0') leaveChildrenAlone();
passCompileCacheOn();
/** The files of this process: those of a group (`scripts/checks/file-group.ts`), or the program itself. */
const files = process.env.TEST_GROUP?.split(',') ?? [process.argv[1] ?? ''];
if (lane !== undefined && !files.every(isPure)) {
  await enterLane(lane);
  (await import('#testing/stores/shard-watch.ts')).demandShardKeys();
}

/**
 * tap follows each promise and callback by an async hook, to name the test of an error that nothing catches. That takes a sixth of the
 * processor time of a test with stores. Without the hook, such an error ends the process: its file fails with the stack of the error.
 */
function followNoPromises(): void {
  const none: asyncHooks.AsyncHook = { enable: () => none, disable: () => none };
  asyncHooks.createHook = () => none;
  // Imports by name read the new function as well.
  syncBuiltinESMExports();
}

/**
 * tap loads its coverage recorder into every process that a test starts, which doubles their start time, and makes Node parse the source
 * maps of all packages. Without coverage neither has a use.
 */
function leaveChildrenAlone(): void {
  processOnSpawn.removeAllListeners();
  process.setSourceMapsEnabled(false);
}

/**
 * Passes Node's compile cache to each Node that a test starts, even if the test replaces the environment. Without the cache, a process
 * spends half of its start on stripping and compiling.
 */
function passCompileCacheOn(): void {
  const { NODE_COMPILE_CACHE, NODE_COMPILE_CACHE_PORTABLE } = process.env;
  if (NODE_COMPILE_CACHE === undefined) return;
  processOnSpawn.addListener((spawn) => {
    if (spawn.execPath !== process.execPath || 'NODE_COMPILE_CACHE' in spawn.env) return;
    spawn.env = { ...spawn.env, NODE_COMPILE_CACHE, NODE_COMPILE_CACHE_PORTABLE };
  });
}

async function enterLane(lane: string): Promise<void> {
  // The runner is the parent of every test file.
  const runner = identify(process.ppid);
  if (runner === undefined) throw new Error('the runner of this test file has ended');
  const { env, said } = await prepareLane(runner, lane);
  for (const line of said) process.stderr.write(`lane ${lane}: ${line}\n`);
  const pids = pidsIn(keeperFolder(runner));
  Object.assign(process.env, env, { EXAMHALL_TEST_PIDS: pids });
  // If the runner is killed, the keeper kills this file as well.
  mkdirSync(pids, { recursive: true });
  writeFileSync(path.join(pids, `${process.pid}.json`), JSON.stringify(identify(process.pid)));
}
