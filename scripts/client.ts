import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { buildClient } from '#scripts/client/build.ts';

/** `npm run client`: compiles `clients/typescript` to JavaScript and packs it, so that another project can install the file. */
const FOLDER = path.resolve(import.meta.dirname, '../clients/typescript');

await buildClient(path.join(FOLDER, 'dist'));
const packed = spawnSync('npm', ['pack', '--ignore-scripts', '--loglevel=error'], { cwd: FOLDER, encoding: 'utf8' });
if (packed.status !== 0) throw new Error(`npm pack failed: ${packed.stderr}`);
console.log(`npm install ${path.join(FOLDER, packed.stdout.trim())}`);
