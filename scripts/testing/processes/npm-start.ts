import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { freePort, isPortFree } from '#scripts/services/port.ts';
import { recordForRunner } from '#scripts/services/throw-away.ts';
import { signalGroup } from '#scripts/supervisor/data-folder.ts';
import { identify, isAlive, type ProcessIdentity } from '#scripts/supervisor/process-identity.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');

/** Returns a free port whose successor is free too; a second front door listens on that one. */
async function freePortPair(): Promise<number> {
  for (;;) {
    const port = await freePort();
    if (await isPortFree(port + 1)) return port;
  }
}

/** Kills all processes of a cluster that still run: npm, the supervisor, and the process groups that the supervisor started. */
function killAll(npm: ChildProcess, dataFolder: string): void {
  npm.kill('SIGKILL');
  const identities = ['supervisor.json', 'processes.json'].flatMap((name): ProcessIdentity[] => {
    const file = path.join(dataFolder, 'run', name);
    return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : [];
  });
  for (const { pid } of identities.filter(isAlive)) {
    signalGroup(pid, 'SIGKILL');
    if (identify(pid) !== undefined) process.kill(pid, 'SIGKILL');
  }
}

/** Runs a real `npm start` with small fake processes, given as scripts by process type, on the stores that `env` names. */
export async function startNpm(
  t: Teardown,
  folder: string,
  processes: Record<string, string>,
  env: NodeJS.ProcessEnv = {},
) {
  mkdirSync(folder, { recursive: true });
  const procfile = Object.keys(processes).map((name) => {
    writeFileSync(path.join(folder, `${name}.mjs`), processes[name] ?? '');
    return `${name}: node ${path.join(folder, `${name}.mjs`)}`;
  });
  writeFileSync(path.join(folder, 'Procfile'), procfile.join('\n'));
  const port = await freePortPair();
  const dataFolder = path.join(folder, 'data');
  const child = spawn('npm', ['start'], {
    cwd: ROOT,
    env: {
      ...process.env,
      PORT: String(port),
      PROCFILE: path.join(folder, 'Procfile'),
      DATA_DIR: dataFolder,
      ...env,
    },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (child.pid !== undefined) recordForRunner(child.pid);
  const cluster = watch(child, port);
  t.teardown(async () => {
    killAll(child, dataFolder);
    await cluster.exit;
    // The supervisor may have started another process during the first call. It is dead now and cannot start more.
    killAll(child, dataFolder);
  });
  return cluster;
}

function watch(child: ChildProcess, port: number) {
  const lines: string[] = [];
  const waiting = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue;
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line);
      const [, pid] = / as (\d+)/.exec(line) ?? [];
      if (pid !== undefined) recordForRunner(Number(pid));
      for (const check of waiting) check();
    });
  }
  const exit = new Promise<number | null>((resolve) => child.on('exit', (code) => resolve(code)));
  // The last lines may arrive after the exit. Processes that npm left behind keep the pipes open, and their lines count too.
  let isClosed = false;
  const closed = new Promise<number | null>((resolve) => child.on('close', (code) => resolve(code)));
  void closed.then(() => {
    isClosed = true;
    for (const check of waiting) check();
  });

  /** Waits for the nth line that matches and returns the match. @throws Error if all output ends before */
  function line(pattern: RegExp, nth = 1): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      const check = () => {
        const found = lines.map((text) => pattern.exec(text)).filter((match) => match !== null)[nth - 1];
        if (found !== undefined) {
          waiting.delete(check);
          resolve(found);
        } else if (isClosed) {
          waiting.delete(check);
          reject(new Error(`ended without ${pattern} (${nth}):\n${lines.join('\n')}`));
        }
      };
      waiting.add(check);
      check();
    });
  }
  return { child, port, lines, line, exit, closed };
}
