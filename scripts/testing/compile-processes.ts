import { spawnSync } from 'node:child_process';

/**
 * Fills Node's compile cache (NODE_COMPILE_CACHE, which bootstrap sets) with what doors and workers load: tests start them by the
 * hundred and mostly kill them, and a killed process leaves nothing in the cache. Each of these ends by itself, over its arguments.
 */
export function compileProcesses(root: string): void {
  const env = { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, PORT: 'none' };
  for (const main of ['api/main.ts', 'workers/main.ts']) {
    const { status } = spawnSync(process.execPath, [main], { cwd: root, env, stdio: 'ignore' });
    if (status === 0 || status === null)
      throw new Error(`${main} was to end over its arguments, with a code of its own`);
  }
}
