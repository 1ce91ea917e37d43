import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { freePort } from '#scripts/start/services/port.ts';
import { createPrefixedOutput } from '#scripts/start/supervisor/prefixed-output.ts';
import { identify, isAlive, type ProcessIdentity, signalGroup } from '#scripts/start/supervisor/processes.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';
import { startThrowAwayServices } from '#testing/stores/throw-away.ts';
import { until } from '#testing/until.ts';
import { createSupervisor } from './supervisor.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

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
async function startNpm(t: Teardown, folder: string, processes: Record<string, string>, env: NodeJS.ProcessEnv = {}) {
  mkdirSync(folder, { recursive: true });
  const procfile = Object.keys(processes).map((name) => {
    writeFileSync(path.join(folder, `${name}.mjs`), processes[name] ?? '');
    return `${name}: node ${path.join(folder, `${name}.mjs`)}`;
  });
  writeFileSync(path.join(folder, 'Procfile'), procfile.join('\n'));
  // A second front door listens on the port after it.
  const port = await freePort(2);
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

const services = await startThrowAwayServices({ mongodb: false });
t.teardown(() => services.close());

const WEB = `
import http from 'node:http';
const server = http.createServer((request, response) => response.end('ok'));
server.listen(Number(process.env.PORT), '127.0.0.1', () => console.log('listening as ' + process.pid));
process.on('SIGTERM', () => { console.log('draining'); server.close(() => process.exit(0)); server.closeAllConnections(); });
`;
/**
 * Prints its first lines after its listeners are installed: a signal in between would end it without output. The second line names the
 * secrets and addresses of its environment.
 */
const WORKER = `
setImmediate(() => console.log('working as ' + process.pid + ' on ' + process.version + ' with port ' + process.env.PORT));
setImmediate(() => console.log('has ' + Object.keys(process.env).filter((name) => /^[A-Z_]+(_TOKEN|_SECRET|_URL)$/.test(name)).sort()));
setInterval(() => {}, 1000);
process.on('SIGTERM', () => { console.log('bye'); process.exit(0); });
`;

/** Runs `npm start` with small fake processes on this test's Redis. Tests that need MongoDB pass its URL. */
function startCluster(t: Teardown, folder: string, processes: Record<string, string>, env: NodeJS.ProcessEnv = {}) {
  return startNpm(t, folder, processes, { REDIS_URL: services.redis?.url, ...env });
}

function isGone(pid: number): boolean {
  return identify(pid) === undefined;
}

t.test('npm start with a database', async (t) => {
  const stores = await startThrowAwayServices({ redis: false });
  t.teardown(() => stores.close());
  const env = { MONGODB_URL: stores.mongodb?.url };

  t.test('prefixes the output, runs the pinned Node, restarts killed processes and stops cleanly', async (t) => {
    const cluster = await startCluster(
      t,
      t.testdir(),
      { release: 'console.log("migrated")', web: WEB, grading: WORKER },
      env,
    );
    await cluster.line(new RegExp(`^ready http://127\\.0\\.0\\.1:${cluster.port}$`));
    const released = cluster.lines.findIndex((line) => /^release +\| migrated$/.test(line));
    const [, worker] = await cluster.line(/^grading +\| working as (\d+) on v24\.\d+\.\d+ with port undefined$/);
    const started = cluster.lines.findIndex((line) => line.includes('working as'));
    t.ok(released >= 0 && released < started, 'the release ends before a process starts');
    await cluster.line(/^grading +\| has MONGODB_URL,NOTIFICATION_SERVICE_URL,REDIS_URL$/);

    process.kill(Number(worker), 'SIGKILL');
    const [, again] = await cluster.line(/^grading +\| working as (\d+)/, 2);
    t.not(again, worker);
    await cluster.line(/^grading +\| was ended by SIGKILL; starting it again in 0\.1 s$/);

    const [, web] = await cluster.line(/^web +\| listening as (\d+)/);
    process.kill(Number(web), 'SIGKILL');
    await cluster.line(/^web +\| listening as (\d+)/, 2);
    t.equal((await fetch(`http://127.0.0.1:${cluster.port}/readyz`)).status, 200);

    // The signal goes to npm only, as on a platform.
    cluster.child.kill('SIGTERM');
    await cluster.closed;
    t.ok(cluster.lines.some((line) => /^grading +\| bye$/.test(line)));
    t.ok(cluster.lines.some((line) => /^web +\| draining$/.test(line)));
    t.equal(cluster.lines.filter((line) => line.startsWith('ready ')).length, 1);
    t.ok(isGone(Number(again)));
    await t.rejects(fetch(`http://127.0.0.1:${cluster.port}/readyz`));
  });

  t.test('assigns names and ports to two processes of one type', async (t) => {
    const cluster = await startCluster(
      t,
      t.testdir(),
      { web: WEB.replace('listening', "listening on ' + process.env.PORT + '") },
      { ...env, FORMATION: 'web=2' },
    );
    await cluster.line(new RegExp(`^web1 +\\| listening on ${cluster.port} `));
    await cluster.line(new RegExp(`^web2 +\\| listening on ${cluster.port + 1} `));
    // Ctrl-C: the terminal signals the whole group, and npm forwards the signal. Both count as one stop.
    process.kill(-(cluster.child.pid ?? 0), 'SIGINT');
    await cluster.closed;
    t.ok(
      cluster.lines.some((line) => /^web2 +\| draining$/.test(line)),
      cluster.lines.join('\n'),
    );
  });

  t.test('kills processes that do not stop at the second signal', async (t) => {
    const stubborn = `${WORKER}\nprocess.removeAllListeners('SIGTERM'); process.on('SIGTERM', () => console.log('no'));`;
    const cluster = await startCluster(t, t.testdir(), { grading: stubborn }, env);
    const [, pid] = await cluster.line(/working as (\d+)/);
    await cluster.line(/^ready /);
    cluster.child.kill('SIGTERM');
    await cluster.line(/^grading +\| no$/);
    const again = setInterval(() => cluster.child.kill('SIGTERM'), 200);
    t.teardown(() => clearInterval(again));
    await cluster.closed;
    await cluster.line(/second signal: killing everything now/);
    await until('the process has ended', () => isGone(Number(pid)));
  });

  t.test('aborts the start if the release fails', async (t) => {
    const cluster = await startCluster(t, t.testdir(), { release: 'process.exit(4)', web: WEB }, env);
    t.equal(await cluster.closed, 1);
    t.match(cluster.lines.join('\n'), /release ended with code 4/);
    t.notMatch(cluster.lines.join('\n'), /listening/);
  });

  t.test('allows one cluster for each data folder and stops the processes of a killed cluster', async (t) => {
    const folder = t.testdir();
    const port = String(await freePort());
    const first = await startCluster(t, folder, { web: WEB, grading: WORKER }, { ...env, PORT: port });
    const [, orphan] = await first.line(/working as (\d+)/);
    await first.line(/^ready /);

    const second = await startCluster(t, folder, { grading: WORKER }, env);
    t.equal(await second.closed, 1);
    t.match(second.lines.join('\n'), /in use by another npm start \(pid \d+\)/);

    const lock: unknown = JSON.parse(readFileSync(path.join(folder, 'data/run/supervisor.json'), 'utf8'));
    t.match(lock, { pid: Number });
    process.kill((lock as { pid: number }).pid, 'SIGKILL');
    await first.exit;
    t.notOk(isGone(Number(orphan)), 'the processes of a killed supervisor survive');

    const third = await startCluster(t, folder, { web: WEB, grading: WORKER }, { ...env, PORT: port });
    await third.line(/stopping processes of a killed npm start: web \(\d+\), grading/);
    await third.line(/^ready /);
    t.ok(isGone(Number(orphan)));
    third.child.kill('SIGTERM');
    await third.closed;
  });

  t.test('refuses to start if another program uses a port', async (t) => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    t.teardown(() => other.close());
    const address = other.address();
    const port = typeof address === 'object' ? String(address?.port) : '';
    const cluster = await startCluster(t, t.testdir(), { web: WEB }, { ...env, PORT: port });
    t.equal(await cluster.closed, 1);
    t.match(cluster.lines.join('\n'), new RegExp(`port ${port} \\(web\\) is in use`));
  });
});

t.test('the supervisor kills processes that do not stop in time and stops services last', async (t) => {
  const written: string[] = [];
  let check = () => {};
  const output = createPrefixedOutput({
    write: (text) => {
      written.push(text.trim());
      check();
    },
    colour: false,
    names: ['web', 'mongodb'],
  });
  const folder = { path: '', record: () => {}, release: () => {} };
  // Long enough that a process on a busy machine prints its line before it is killed.
  const supervisor = createSupervisor({ output, folder, times: { processesMs: 10_000, servicesMs: 60_000 } });
  const plan = (script: string) => ({ command: process.execPath, args: ['-e', script], env: process.env });
  const deaf = "process.on('SIGTERM', () => console.log('no')); setInterval(() => {}, 1000); console.log('up')";
  const web = supervisor.keep('process', 'web', plan(deaf));
  const mongodb = supervisor.keep('service', 'mongodb', plan(`${deaf}; process.on('SIGTERM', () => process.exit())`));
  const pids = [web.pid() ?? 0, mongodb.pid() ?? 0];
  await new Promise<void>((resolve) => {
    check = () => written.filter((line) => line.endsWith('| up')).length === 2 && resolve();
  });
  await supervisor.stop();
  t.strictSame(pids.map(isGone), [true, true]);
  const order = written.filter((line) => !line.endsWith('| up'));
  t.match(order, [/^web +\| no$/, /^web +\| did not stop in time; killing it$/, /^mongodb \| no$/]);
});

t.test('npm start in production refuses all development defaults in one message', async (t) => {
  const known = { INTERNAL_SERVICE_TOKEN: 'dev-internal-token', OPS_TOKEN: 'dev-ops-token' };
  const cluster = await startCluster(t, t.testdir(), { web: WEB }, { NODE_ENV: 'production', ...known });
  t.equal(await cluster.closed, 1);
  const said = cluster.lines.join('\n');
  for (const name of ['INTERNAL_SERVICE_TOKEN', 'OPS_TOKEN', 'AUTH_JWT_SECRET'])
    t.match(said, new RegExp(`- ${name}: `));
  t.notMatch(said, /answers|listening/, 'no service or process is started');
});

t.test('npm start refuses an invalid variable at once, in one sentence', async (t) => {
  for (const [name, value, says] of [
    ['PORT', '', /PORT=: a cluster listens/],
    ['PORT', '0', /PORT=0: a cluster listens/],
    ['DATA_DIR', '', /DATA_DIR: empty; expected a folder/],
    ['FORMATION', 'nobody=1', /"nobody" is not a process type/],
    ['MONGODB_URL', '', /MONGODB_URL: empty/],
    ['MONGODB_URL', 'somewhere', /MONGODB_URL: set to a value not shown here/],
    ['MONGODB_URL', 'mongodb://db/?retryWrite=true', /MONGODB_URL: .*retrywrite is not supported/],
    ['REDIS_URL', 'redis://redis:99999', /REDIS_URL: .*is not a URL/],
    ['LOG_LEVEL', 'loud', /LOG_LEVEL: set to "loud"/],
    ['PROCFILE', '/nowhere/Procfile', /PROCFILE=\/nowhere\/Procfile cannot be read/],
    ['DATA_DIR', import.meta.filename, /DATA_DIR=.* cannot be written/],
  ] as const) {
    const cluster = await startCluster(t, t.testdir(), { web: WEB }, { [name]: value });
    t.equal(await cluster.closed, 1, `${name}=${value}`);
    t.match(cluster.lines.join('\n'), says);
    t.notMatch(cluster.lines.join('\n'), / at |listening/, 'no stack, and no process is started');
  }
});

t.test('npm start reports every fault in one message', async (t) => {
  const env = { PORT: 'abc', FORMATION: 'nobody=1', LOG_LEVEL: 'loud' };
  const cluster = await startCluster(t, t.testdir(), { web: WEB }, env);
  t.equal(await cluster.closed, 1);
  const faults = cluster.lines.filter((line) => line.startsWith('  - '));
  t.strictSame(faults.map((line) => /PORT|FORMATION|LOG_LEVEL/.exec(line)?.[0]).sort(), [
    'FORMATION',
    'LOG_LEVEL',
    'PORT',
  ]);
});
