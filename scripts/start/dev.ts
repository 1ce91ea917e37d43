import { setTimeout as delay } from 'node:timers/promises';
import { endLoadingWhenIdle } from '#infra/process/loading.ts';
import { ServiceMissing } from '#scripts/start/services/service.ts';
import { outputFor, startCluster } from '#scripts/start/supervisor/cluster.ts';
import { firstSteps } from '#scripts/start/supervisor/development-defaults.ts';
import { planCluster, StartRefused } from '#scripts/start/supervisor/plan.ts';
import { onStopSignals } from '#scripts/start/supervisor/processes.ts';
import type { Supervisor } from './supervisor.ts';

/**
 * `npm start`: runs MongoDB, Redis and every process type of the Procfile until a stop signal, and restarts those that die.
 * Environment: PORT, DATA_DIR, FORMATION (web=2,grading=2), PROCFILE, MONGODB_URL, REDIS_URL, NEIGHBOURS_URL, NO_COLOR, and the variables
 * of the processes.
 */
const ended = new AbortController();
let cluster: Supervisor | undefined;
let exitCode = 0;

// A reader that closes the pipe (npm start | head) must not end the cluster.
process.stdout.on('error', () => {});

try {
  const plan = planCluster(process.env);
  const output = await outputFor(plan, process.stdout, process.env);
  onStopSignals({
    first: (signal) => {
      output.line('start', `${signal}: stopping`);
      ended.abort();
    },
    again: () => {
      output.line('start', 'second signal: killing everything now');
      cluster?.kill();
      process.exit(130);
    },
  });
  const begun = (started: Supervisor) => {
    cluster = started;
  };
  await startCluster({ output, signal: ended.signal, begun }, plan);
  output.plain(`ready ${plan.url}`);
  for (const line of firstSteps(plan)) output.line('start', line);
  endLoadingWhenIdle({ debug: () => undefined });
  // A pending promise does not keep a process alive. Without any process type, this timer does.
  while (!ended.signal.aborted) await delay(2 ** 30, undefined, { signal: ended.signal }).catch(() => undefined);
} catch (error) {
  if (!ended.signal.aborted) {
    exitCode = 1;
    const forPeople = error instanceof StartRefused || error instanceof ServiceMissing;
    console.error(forPeople ? error.message : error);
  }
}
await cluster?.stop();
process.exit(exitCode);
