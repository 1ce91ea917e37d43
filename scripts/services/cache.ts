import os from 'node:os';
import path from 'node:path';

/** Returns the folder for pinned binaries: EXAMHALL_TOOLS_DIR, which checkouts can share, otherwise a folder of the checkout. */
export function toolsCache(env: NodeJS.ProcessEnv = process.env): string {
  return path.resolve(env.EXAMHALL_TOOLS_DIR || path.join(import.meta.dirname, '../../.cache/tools'));
}

/** Returns the folder for long builds, which all checkouts of a user share. It is below XDG_CACHE_HOME, default `~/.cache`. */
export function userCache(env: NodeJS.ProcessEnv = process.env): string {
  return path.resolve(env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'examhall');
}
