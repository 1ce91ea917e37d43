import path from 'node:path';
import processOnSpawn from 'process-on-spawn';
import { isPure } from '#testing/checks/project-files.ts';
import { storesOf } from './stores.ts';

/** The recorder among Node's options. */
const RECORDER = /"?--import=\S+@tapjs\/processinfo\S+/;

/**
 * Loaded by tap (`node-arg` in .taprc) into every test file, before the file, and into `before` and `after`. A file that needs stores finds
 * MONGODB_URL and REDIS_URL of its lane in its environment. A file that Node runs without tap finds those that the user set.
 */
const { TAP_JOB_ID: lane, _TAPJS_PROCESSINFO_COVERAGE_: coverage } = process.env;
if (coverage !== '1') leaveChildrenAlone();
passCompileCacheOn();
if (lane !== undefined && !isPure(path.basename(process.argv[1] ?? ''))) {
  Object.assign(process.env, storesOf(process.ppid, lane));
  (await import('#testing/stores/shard-watch.ts')).demandShardKeys();
}

/**
 * tap loads its coverage recorder into every process that a test starts. That doubles their start time and breaks some programs. It also makes
 * Node parse the source maps of all packages. Without coverage neither has a use.
 */
function leaveChildrenAlone(): void {
  processOnSpawn.removeAllListeners();
  const options = process.env.NODE_OPTIONS?.replace(RECORDER, '').trim() ?? '';
  if (options === '') Reflect.deleteProperty(process.env, 'NODE_OPTIONS');
  else process.env.NODE_OPTIONS = options;
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
