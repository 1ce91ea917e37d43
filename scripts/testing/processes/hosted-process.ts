import { EventEmitter } from 'node:events';
import { openFrontDoor } from '#api/main.ts';
import { readConfig } from '#infra/config/config.ts';
import { isWorkerType } from '#infra/config/readers.ts';
import type { ProcessHost } from '#infra/process/drain.ts';
import { ACTORS } from '#workers/actors.ts';
import { startWorkerProcess } from '#workers/worker-process.ts';
import type { ClusterProcess, ProcessPlan } from './cluster-process.ts';

/** Time limit of a drain. A test that ends in the middle of a request or a run must not wait longer. */
const SHUTDOWN_TIMEOUT_MS = '3000';

/** One run of the program: from its start to its exit. */
interface Run {
  readonly signals: EventEmitter;
  readonly ended: Promise<number>;
}

/**
 * Returns a front door, or the worker that `actor` names, which `start` starts inside this process. It is built and drained like a process
 * of its own, with its own configuration, log and connections. Without the start of Node and the loading of modules it costs a tenth of
 * the processor time. No signal can kill it, so that `kill` accepts SIGTERM only.
 */
export function planHosted(plan: Omit<ProcessPlan, 'cwd' | 'args'>, actor: string | undefined): ClusterProcess {
  const said: string[] = [];
  const crashes: string[] = [];
  let run: Run | undefined;
  let isWanted = false;

  async function open(host: ProcessHost): Promise<void> {
    const env = { SHUTDOWN_TIMEOUT_MS, ...plan.env };
    if (actor === undefined) {
      await openFrontDoor(readConfig(env, 'web'), host);
      return;
    }
    if (!isWorkerType(actor)) throw new Error(`no worker is named ${actor}`);
    await startWorkerProcess(readConfig(env, actor), actor, await ACTORS[actor](), host);
  }

  async function start(): Promise<void> {
    if (run !== undefined) return;
    const ended = Promise.withResolvers<number>();
    const started = { signals: new EventEmitter(), ended: ended.promise };
    run = started;
    isWanted = false;
    const since = said.length;
    const exit = (code: number) => {
      run = undefined;
      if (!isWanted) crashes.push(`${plan.name} (${code}): ${said.slice(since).join('').slice(-1_000)}`);
      ended.resolve(code);
    };
    const signals = started.signals as unknown as ProcessHost['signals'];
    await open({ signals, exit, logTo: { write: (text) => void said.push(text) }, env: plan.env });
    await plan.untilReady(
      () => said.slice(since).join(''),
      () => run !== started,
    );
  }

  async function end(): Promise<number | null> {
    if (run === undefined) return null;
    isWanted = true;
    run.signals.emit('SIGTERM', 'SIGTERM');
    return run.ended;
  }

  return {
    name: plan.name,
    port: plan.port,
    start,
    async kill(signal) {
      if (signal === 'SIGTERM') return end();
      throw new Error(`${plan.name} runs inside the test, so that ${signal} cannot reach it: name it in \`apart\``);
    },
    end,
    pid: () => (run === undefined ? undefined : process.pid),
    output: () => said.join(''),
    crashes: () => crashes,
  };
}
