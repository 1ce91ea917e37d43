import { configOrExit } from '#infra/config/config.ts';
import { ACTORS } from '#workers/actors.ts';
import { startWorkerProcess } from '#workers/worker-process.ts';

/**
 * Program for tests that kill no worker: runs the workers that its arguments name in one process. Each start of a process takes half a
 * second of processor time, most of it for modules that all workers share.
 */
const loaded = await Promise.all(
  process.argv.slice(2).map(async (name) => {
    const load = ACTORS[name];
    if (load === undefined) throw new Error(`no worker is named ${name}`);
    return { name, makeActor: await load() };
  }),
);
const config = configOrExit(process.env);
await Promise.all(loaded.map(({ name, makeActor }) => startWorkerProcess(config, name, makeActor)));
