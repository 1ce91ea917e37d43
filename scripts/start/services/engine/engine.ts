import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { userCache } from '#scripts/start/services/tools.ts';

/** The faster stand-in for MongoDB, which `npm run engine` builds from its published sources. */
export const ENGINE = {
  crate: 'secantus-mdb',
  /** The crate that `patch` changes; of the same version. */
  patched: 'secantus-storage',
  version: '0.5.3-beta.196',
  binary: 'secantusd-rs',
  /** SHA-256 of the lock file inside the crate. The lock file contains the checksum of every other crate of the build. */
  lockSha256: '93bd1ecaa7f58711a54dbdd86a685d7190238e5d650db0dc2b778e719164e9ea',
  patch: path.join(import.meta.dirname, '../secantus-storage.patch'),
};
export type EngineSpec = typeof ENGINE;

/** The record that `npm run engine` stores beside the binary. */
export interface BuildRecord {
  crate: string;
  version: string;
  binarySha256: string;
  rustc: string;
  builtAt: string;
}

export const RECORD = 'built.json';

/** State of the engine of this version and patch for this user. `damaged`: the binary is not the one that was built and must not run. */
export type EngineState =
  | { kind: 'built'; binary: string; record: BuildRecord }
  | { kind: 'absent' }
  | { kind: 'damaged'; folder: string };

/** Returns the state of the engine. Hashes the binary, which takes about 20 ms. */
export function engineState(env: NodeJS.ProcessEnv, spec = ENGINE): EngineState {
  const folder = engineFolder(env, spec);
  const binary = path.join(folder, spec.binary);
  try {
    const record: BuildRecord = JSON.parse(readFileSync(path.join(folder, RECORD), 'utf8'));
    return sha256OfFile(binary) === record.binarySha256
      ? { kind: 'built', binary, record }
      : { kind: 'damaged', folder };
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    return isMissing ? { kind: 'absent' } : { kind: 'damaged', folder };
  }
}

/** Returns the engine's folder. Each version, patch and platform has its own, because checkouts of different ages share the cache. */
export function engineFolder(env: NodeJS.ProcessEnv, spec = ENGINE): string {
  const patch = sha256OfFile(spec.patch).slice(0, 12);
  const name = [spec.binary, spec.version, patch, process.platform, process.arch].join('-');
  return path.join(userCache(env), name);
}

/** Returns the SHA-256 of a file in hexadecimal. @throws Error if the file cannot be read */
export function sha256OfFile(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}
