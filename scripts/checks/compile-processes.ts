import { spawnSync } from 'node:child_process';

/**
 * Fills Node's compile cache (NODE_COMPILE_CACHE, set by bootstrap) with the modules of the product's programs. Tests start hundreds
 * of these processes and kill most, and a killed process adds nothing to the cache. The processes started here reject their arguments or
 * their configuration and exit.
 */
export function compileProcesses(root: string): void {
  const env = { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, PORT: 'none' };
  for (const main of ['api/main.ts', 'workers/main.ts', 'scripts/examhall.ts', 'scripts/migrate.ts']) {
    const { status } = spawnSync(process.execPath, [main], { cwd: root, env, stdio: 'ignore' });
    if (status === 0 || status === null) throw new Error(`${main} did not reject its arguments with an exit code`);
  }
}
