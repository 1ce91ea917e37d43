import { spawnSync } from 'node:child_process';

/**
 * Fills Node's compile cache (NODE_COMPILE_CACHE, set by bootstrap) with the modules of front doors and workers. Tests start hundreds of
 * these processes and kill most of them before they have stored what they compiled.
 */
export function compileProcesses(root: string): void {
  const { PATH, NODE_COMPILE_CACHE, NODE_COMPILE_CACHE_PORTABLE } = process.env;
  const env = { PATH, NODE_COMPILE_CACHE, NODE_COMPILE_CACHE_PORTABLE };
  const { status, stderr } = spawnSync(process.execPath, ['scripts/compile.ts'], { cwd: root, env, encoding: 'utf8' });
  if (status !== 0) throw new Error(`scripts/compile.ts failed:\n${stderr}`);
}
