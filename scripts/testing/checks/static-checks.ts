import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';

export interface StaticCheck {
  readonly name: string;
  readonly what: string;
  /** Arguments of the pinned Node. */
  readonly args: readonly string[];
}

/** The checks without a test runner. Each counts as one passed or failed check. */
export const STATIC_CHECKS: readonly StaticCheck[] = [
  {
    name: 'types',
    what: 'tsc --noEmit',
    // Only the changed files and their importers are checked again.
    args: ['node_modules/.bin/tsc', '--noEmit', '--incremental', '--tsBuildInfoFile', '.cache/types.tsbuildinfo'],
  },
  { name: 'lint', what: 'biome check', args: ['node_modules/.bin/biome', 'check', '--max-diagnostics=50', '.'] },
  {
    name: 'layers',
    what: 'imports follow the arrows; no small file has one reader',
    args: ['scripts/testing/checks/check-layers.ts'],
  },
  {
    name: 'prose',
    what: 'comments, messages and documents follow the style sheet',
    args: ['scripts/testing/checks/check-prose.ts'],
  },
  {
    name: 'generated',
    what: 'generated files match their sources',
    args: ['scripts/generate/generate.ts', '--check'],
  },
];

/** Runs one check and returns whether it passed, with its output. `signal` kills it. */
export async function runStaticCheck(
  root: string,
  check: StaticCheck,
  signal: AbortSignal,
): Promise<{ ok: boolean; said: string }> {
  const child = spawn(process.execPath, check.args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], signal });
  const ended = new Promise<boolean>((resolve) => {
    child.on('error', () => resolve(false));
    child.on('exit', (code) => resolve(code === 0));
  });
  // An abort destroys the streams.
  const [out, err] = await Promise.all([child.stdout, child.stderr].map((stream) => text(stream).catch(() => '')));
  return { ok: await ended, said: `${out}${err}`.trimEnd() };
}
