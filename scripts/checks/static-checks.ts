import { spawn } from 'node:child_process';

export interface StaticCheck {
  readonly name: string;
  readonly what: string;
  /** Arguments of the pinned Node. */
  readonly args: readonly string[];
}

/** The checks without a test runner. Each counts as one passed or failed check. */
export const STATIC_CHECKS: readonly StaticCheck[] = [
  { name: 'types', what: 'tsc --noEmit', args: ['node_modules/.bin/tsc', '--noEmit'] },
  { name: 'lint', what: 'biome check', args: ['node_modules/.bin/biome', 'check', '--max-diagnostics=50', '.'] },
  {
    name: 'layers',
    what: 'imports follow the arrows, without circles; files have the right size',
    args: ['scripts/check-layers.ts'],
  },
  {
    name: 'prose',
    what: 'comments, messages and documents follow the style sheet',
    args: ['scripts/check-prose.ts'],
  },
  {
    name: 'generated',
    what: 'generated files match their sources',
    args: ['scripts/generate.ts', '--check'],
  },
];

/** Runs one check with its output on the terminal and returns whether it passed. `signal` kills it. */
export async function runStaticCheck(root: string, check: StaticCheck, signal: AbortSignal): Promise<boolean> {
  const child = spawn(process.execPath, check.args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], signal });
  return new Promise((resolve) => {
    child.on('error', () => resolve(false));
    child.on('exit', (code) => resolve(code === 0));
  });
}
