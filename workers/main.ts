import { configOrExit } from '#infra/config/config.ts';
import { endLoadingWhenIdle } from '#infra/process/loading.ts';
import { ACTORS } from './actors.ts';
import { startWorkerProcess } from './worker-process.ts';

/** Starts a worker process with one actor, which the first argument names. */
const name = process.argv[2] ?? '';
const load = ACTORS[name];
if (load === undefined) {
  console.error(`usage: node workers/main.ts ${Object.keys(ACTORS).join(' | ')}`);
  process.exit(2);
}
endLoadingWhenIdle(await startWorkerProcess(configOrExit(process.env), name, await load()));
