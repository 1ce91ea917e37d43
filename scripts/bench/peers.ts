import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

/** Manifest and lock of the packages of the bench. */
const MANIFEST = path.join(import.meta.dirname, 'peers');
/** Where they are installed: 60 MB that no other command needs. */
const FOLDER = path.resolve(import.meta.dirname, '../../.cache/bench');
const LOCK = 'package-lock.json';

/** Installs the packages of the bench if they are missing or another lock installed them. @throws Error if npm fails */
export function installPeers(say: (line: string) => void): void {
  const wanted = readFileSync(path.join(MANIFEST, LOCK), 'utf8');
  const installed = path.join(FOLDER, 'installed.json');
  if (existsSync(installed) && readFileSync(installed, 'utf8') === wanted) return;
  say('installing the packages of the bench (npm ci)');
  cpSync(MANIFEST, FOLDER, { recursive: true });
  const { status, stderr } = spawnSync('npm', ['ci', '--loglevel=error'], { cwd: FOLDER, encoding: 'utf8' });
  if (status !== 0) throw new Error(`npm ci failed in ${FOLDER}:\n${stderr}`);
  writeFileSync(installed, wanted);
}

/** Loads a package of the bench. `Module` is the part of it that the bench uses. */
export async function peer<Module>(name: string): Promise<Module> {
  const file = createRequire(path.join(FOLDER, 'package.json')).resolve(name);
  return (await import(pathToFileURL(file).href)) as Module;
}
