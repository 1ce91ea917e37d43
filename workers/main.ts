import { parentPort, workerData } from 'node:worker_threads';
import { configOrExit } from '#infra/config/config.ts';
import { isWorkerType } from '#infra/config/readers.ts';
import { endLoadingWhenIdle } from '#infra/process/loading.ts';
import { ACTORS } from './actors.ts';
import { type IsolatedRun, runIsolated } from './isolated-run.ts';
import { startWorkerProcess } from './worker-process.ts';

/** Starts a worker process with one actor, which the first argument names. In a thread of such a process, runs one suspect and ends. */
const name = process.argv[2] ?? '';
if (!isWorkerType(name)) {
  console.error(`usage: node workers/main.ts ${Object.keys(ACTORS).join(' | ')}`);
  process.exit(2);
}
const [config, makeActor] = [configOrExit(process.env, name), await ACTORS[name]()];
if (parentPort === null) {
  endLoadingWhenIdle(await startWorkerProcess(config, name, makeActor));
} else {
  await runIsolated(parentPort, workerData as IsolatedRun, { config, name, makeActor });
  // Connections of its libraries may still be open.
  process.exit();
}
