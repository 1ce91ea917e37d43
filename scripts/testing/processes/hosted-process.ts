import { EventEmitter } from 'node:events';
import { openFrontDoor } from '#api/main.ts';
import { readConfig } from '#infra/config/config.ts';
import { isWorkerType } from '#infra/config/readers.ts';
import type { ProcessHost } from '#infra/process/drain.ts';
import { ACTORS } from '#workers/actors.ts';
import { startWorkerProcess } from '#workers/worker-process.ts';
import { type ClusterProcess, type ProcessPlan, planRuns } from './cluster-process.ts';
import { type Crash, crashPoints } from './crash-points.ts';
import { beginLife } from './life.ts';
import type { RunningWorker } from './worker-process.ts';

/** Time limit of a drain. A test that ends in the middle of a request or a run must not wait longer. */
const SHUTDOWN_TIMEOUT_MS = '3000';

/**
 * Returns a front door, or the worker that `actor` names, which `start` starts inside this process. It is built and drained like a process
 * of its own, with its own configuration, log and connections. Without the start of Node and the loading of modules it costs a tenth of
 * the processor time. No signal can kill it, so that `kill` accepts SIGTERM only.
 */
export function planHosted(plan: Omit<ProcessPlan, 'cwd' | 'args'>, actor: string | undefined): ClusterProcess {
  return planRuns(plan, ({ say, exit }) => {
    const { host, end } = hostOf(plan.env, say, exit);
    const env = { SHUTDOWN_TIMEOUT_MS, ...plan.env };
    const begun =
      actor === undefined
        ? openFrontDoor(readConfig(env, 'web'), host)
        : startOf(actor, env).then((start) => start(host));
    return {
      pid: process.pid,
      begun: begun.then(() => undefined),
      fastest: 'SIGTERM',
      signal(signal) {
        if (signal === 'SIGTERM') return end();
        throw new Error(`${plan.name} runs inside the test, so that ${signal} cannot reach it: name it in \`apart\``);
      },
    };
  });
}

/**
 * Starts a worker inside the process of the test, as its own process would start it. If `crash` is set, the worker dies at that point of
 * that command as by SIGKILL: see `life.ts`.
 */
export async function startMortalWorker(name: string, env: NodeJS.ProcessEnv, crash?: Crash): Promise<RunningWorker> {
  const ownEnv = { ...process.env, LOG_LEVEL: 'silent', ...env };
  const start = await startOf(name, ownEnv);
  const ended = Promise.withResolvers<string>();
  let [said, logged] = ['', ''];
  const die = (how: string) => {
    life.end();
    ended.resolve(how);
  };
  const points = crashPoints(crash ?? { commandId: '', point: -1 }, (point) => {
    said += `${point}\n`;
    die('SIGKILL');
    return new Promise(() => undefined);
  });
  const life = beginLife(points);
  const { host, end } = hostOf(
    ownEnv,
    (text) => (logged += text),
    (code) => die(String(code)),
  );
  life.live(() => start(host)).catch(ended.reject);
  return {
    ended: ended.promise,
    said: () => said,
    logged: () => logged,
    openTransactions: life.openTransactions,
    stop() {
      life.live(end);
      return ended.promise;
    },
  };
}

/** Returns what stands for the process of a program that runs inside this one, and the function that sends it SIGTERM. */
function hostOf(env: NodeJS.ProcessEnv, write: (text: string) => unknown, exit: (code: number) => void) {
  const signals = new EventEmitter();
  const host = {
    env,
    exit,
    logTo: { write: (text) => void write(text) },
    signals: signals as never,
  } satisfies ProcessHost;
  return { host, end: () => void signals.emit('SIGTERM', 'SIGTERM') };
}

/** Loads a worker, and returns its start. Modules are loaded once for all workers, so their own state belongs to no life. */
async function startOf(name: string, env: NodeJS.ProcessEnv) {
  if (!isWorkerType(name)) throw new Error(`no worker is named ${name}`);
  const makeActor = await ACTORS[name]();
  const config = readConfig(env, name);
  return (host: ProcessHost) => startWorkerProcess(config, name, makeActor, host);
}
