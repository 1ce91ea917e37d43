import { spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

/** Manifest and lock of the packages of the bench: 60 MB that no other command needs. */
const FOLDER = path.join(import.meta.dirname, 'peers');
const LOCK = path.join(FOLDER, 'package-lock.json');
const INSTALLED = path.join(FOLDER, 'node_modules', '.package-lock.json');

/** Installs the packages of the bench if they are missing or older than their lock. @throws Error if npm fails */
export function installPeers(say: (line: string) => void): void {
  if (existsSync(INSTALLED) && statSync(INSTALLED).mtimeMs >= statSync(LOCK).mtimeMs) return;
  say('installing the packages of the bench (npm ci)');
  const { status, stderr } = spawnSync('npm', ['ci', '--loglevel=error'], { cwd: FOLDER, encoding: 'utf8' });
  if (status !== 0) throw new Error(`npm ci failed in ${FOLDER}:\n${stderr}`);
}

/** Loads a package of the bench. `Module` is the part of it that the bench uses. */
export async function peer<Module>(name: string): Promise<Module> {
  const file = createRequire(path.join(FOLDER, 'package.json')).resolve(name);
  return (await import(pathToFileURL(file).href)) as Module;
}
