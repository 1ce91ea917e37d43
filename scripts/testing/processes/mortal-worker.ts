import { EventEmitter } from 'node:events';
import { readConfig } from '#infra/config/config.ts';
import { isWorkerType } from '#infra/config/readers.ts';
import { ACTORS } from '#workers/actors.ts';
import { startWorkerProcess } from '#workers/worker-process.ts';
import { type Crash, crashPoints } from './crash-points.ts';
import { beginLife } from './life.ts';
import type { RunningWorker } from './worker-process.ts';

/**
 * Starts a worker inside the process of the test, as its own process would start it. If `crash` is set, the worker dies at that point of
 * that command as by SIGKILL: see `life.ts`.
 */
export async function startMortalWorker(name: string, env: NodeJS.ProcessEnv, crash?: Crash): Promise<RunningWorker> {
  if (!isWorkerType(name)) throw new Error(`no worker is named ${name}`);
  // Modules are loaded once for all workers, so their own state belongs to no life.
  const makeActor = await ACTORS[name]();
  const ownEnv = { ...process.env, LOG_LEVEL: 'silent', ...env };
  const config = readConfig(ownEnv, name);
  const ended = Promise.withResolvers<string>();
  const signals = new EventEmitter();
  let said = '';
  let logged = '';

  const end = (how: string) => {
    life.end();
    ended.resolve(how);
  };
  const points = crashPoints(crash ?? { commandId: '', point: -1 }, (point) => {
    said += `${point}\n`;
    end('SIGKILL');
    return new Promise(() => undefined);
  });
  const life = beginLife(points);
  const host = {
    env: ownEnv,
    signals: signals as unknown as Pick<NodeJS.Process, 'on'>,
    exit: (code: number) => end(String(code)),
    logTo: {
      write(text: string) {
        logged += text;
      },
    },
  };
  life.live(() => startWorkerProcess(config, name, makeActor, host)).catch(ended.reject);
  return {
    ended: ended.promise,
    said: () => said,
    logged: () => logged,
    openTransactions: life.openTransactions,
    stop() {
      life.live(() => signals.emit('SIGTERM', 'SIGTERM'));
      return ended.promise;
    },
  };
}
