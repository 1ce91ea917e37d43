import { spawn } from 'node:child_process';

export interface StaticCheck {
  readonly name: string;
  readonly what: string;
  /** Arguments of the pinned Node. */
  readonly args: readonly string[];
}

/** What needs no test runner: each counts as one passed or failed. */
export const STATIC_CHECKS: readonly StaticCheck[] = [
  { name: 'types', what: 'tsc --noEmit', args: ['node_modules/.bin/tsc', '--noEmit'] },
  { name: 'lint', what: 'biome check', args: ['node_modules/.bin/biome', 'check', '--max-diagnostics=50', '.'] },
  {
    name: 'layers',
    what: 'imports follow the arrows, without circles; files have the right size',
    args: ['scripts/check-layers.ts'],
  },
  {
    name: 'generated',
    what: 'generated files match what they are made from',
    args: ['scripts/generate.ts', '--check'],
  },
];

/** Runs one check, its output as it comes. `signal` ends it. Resolves to whether it passed. */
export async function runStaticCheck(root: string, check: StaticCheck, signal: AbortSignal): Promise<boolean> {
  const child = spawn(process.execPath, check.args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], signal });
  return new Promise((resolve) => {
    child.on('error', () => resolve(false));
    child.on('exit', (code) => resolve(code === 0));
  });
}
