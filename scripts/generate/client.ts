import { execFile, spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

/** `npm run client`: compiles `clients/typescript` to JavaScript and packs it, so that another project can install the file. */

const ROOT = path.resolve(import.meta.dirname, '../..');
const run = promisify(execFile);

/** Compiles the client to JavaScript and declarations in `folder`, which it empties first. @throws Error with the faults of the compiler */
export async function buildClient(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  await compile(['-p', 'clients/typescript', '--outDir', folder]);
}

/** Runs the TypeScript compiler at the root of the project, or in `cwd`. @throws Error with its output if it finds a fault */
export async function compile(args: readonly string[], cwd = ROOT): Promise<void> {
  const tsc = path.join(ROOT, 'node_modules/.bin/tsc');
  await run(process.execPath, [tsc, ...args], { cwd }).catch((error: { stdout?: string }) => {
    throw new Error(error.stdout || String(error));
  });
}

if (import.meta.main) {
  const cwd = path.join(ROOT, 'clients/typescript');
  await buildClient(path.join(cwd, 'dist'));
  const packed = spawnSync('npm', ['pack', '--ignore-scripts', '--loglevel=error'], { cwd, encoding: 'utf8' });
  if (packed.status !== 0) throw new Error(`npm pack failed: ${packed.stderr}`);
  console.log(`npm install ${path.join(cwd, packed.stdout.trim())}`);
}
