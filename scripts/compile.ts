import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { ACTORS } from '#workers/actors.ts';

/**
 * `npm run build`: fills Node's compile cache, which bootstrap names, with the modules of every process type, so that already their
 * first start reads it. Every process fills it as well, and runs without it. Platforms that build an image run this script by its name.
 */
const ROOT = path.resolve(import.meta.dirname, '..');

await Promise.all([
  import('#workers/worker-process.ts'),
  import('#workers/status-server.ts'),
  import('#infra/metrics/metrics.ts'),
  import('#infra/models/followed-models.ts'),
  import('#infra/passwords/common-passwords.ts').then(({ commonPasswords }) => commonPasswords()),
  ...Object.values(ACTORS).map((load) => load()),
]);
// A program that is imported would start. With this environment it loads its modules, refuses its configuration and exits.
const { PATH, NODE_COMPILE_CACHE, NODE_COMPILE_CACHE_PORTABLE } = process.env;
const env = { PATH, NODE_COMPILE_CACHE, NODE_COMPILE_CACHE_PORTABLE, PORT: 'none' };
for (const program of ['api/main.ts', 'workers/main.ts', 'scripts/migrate.ts', 'scripts/examhall/examhall.ts']) {
  const { status } = spawnSync(process.execPath, [program], { cwd: ROOT, env, stdio: 'ignore' });
  if (status === 0 || status === null) throw new Error(`${program} did not refuse its configuration with an exit code`);
}
