import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { signalGroup } from '../supervisor/data-folder.ts';
import { createTapReport, type FileResult, type TapTotals, withoutPassed } from './tap-report.ts';

const TAP = 'node_modules/.bin/tap';

/** Runs test files with tap: a line for each file, the whole report of each that fails. */
export async function runTap(
  deps: { root: string; env: NodeJS.ProcessEnv; signal: AbortSignal; say: (line: string) => void },
  files: readonly string[],
  flags: readonly string[],
): Promise<{ totals: TapTotals; files: readonly FileResult[] }> {
  await buildTap(deps);
  const report = createTapReport((file) => {
    deps.say(`${file.ok ? 'ok  ' : 'FAIL'} ${file.path} (${(file.durationMs / 1_000).toFixed(1)} s)`);
    if (!file.ok) for (const line of withoutPassed(file.lines)) deps.say(line);
  });
  const code = await node(deps, [TAP, '--reporter=tap', ...flags, ...files], (line) => report.line(line));
  const counted = report.totals() ?? { passed: 0, failed: 0 };
  // A file that crashes or times out fails without a failed assertion of its own.
  const failedFiles = report.files.filter((file) => !file.ok).length;
  const failed = Math.max(counted.failed, failedFiles, code === 0 ? 0 : 1);
  return { totals: { passed: counted.passed, failed }, files: report.files };
}

/** tap compiles its plugins once after each installation; without that its first run fails. */
async function buildTap(deps: {
  root: string;
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  say: (line: string) => void;
}): Promise<void> {
  // In node_modules, so that the next `npm ci` takes it away.
  const stamp = path.join(deps.root, 'node_modules/.cache/tap-built-for');
  const wanted = readFileSync(path.join(deps.root, '.taprc'), 'utf8');
  const built = existsSync(stamp) && existsSync(path.join(deps.root, '.tap/plugins'));
  if (built && readFileSync(stamp, 'utf8') === wanted) return;
  const said: string[] = [];
  const code = await node(deps, [TAP, 'build'], (line) => said.push(line));
  if (code !== 0) throw new Error(`tap build failed:\n${said.join('\n')}`);
  mkdirSync(path.dirname(stamp), { recursive: true });
  writeFileSync(stamp, wanted);
}

async function node(
  deps: { root: string; env: NodeJS.ProcessEnv; signal: AbortSignal },
  args: readonly string[],
  onLine: (line: string) => void,
): Promise<number> {
  deps.signal.throwIfAborted();
  const env = {
    ...deps.env,
    NO_COLOR: '1',
    PATH: `${path.dirname(process.execPath)}${path.delimiter}${deps.env.PATH ?? ''}`,
  };
  const child = spawn(process.execPath, args, {
    cwd: deps.root,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  createInterface({ input: child.stdout }).on('line', onLine);
  const end = () => {
    if (child.pid !== undefined) signalGroup(child.pid, 'SIGKILL');
  };
  deps.signal.addEventListener('abort', end, { once: true });
  process.once('exit', end);
  const code = await new Promise<number>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (exitCode) => resolve(exitCode ?? 1));
  });
  deps.signal.removeEventListener('abort', end);
  process.off('exit', end);
  return code;
}
