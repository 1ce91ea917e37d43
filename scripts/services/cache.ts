import os from 'node:os';
import path from 'node:path';

/** Where pinned binaries are installed: one folder of the checkout, or EXAMHALL_TOOLS_DIR to share it between checkouts. */
export function toolsCache(env: NodeJS.ProcessEnv = process.env): string {
  return path.resolve(env.EXAMHALL_TOOLS_DIR || path.join(import.meta.dirname, '../../.cache/tools'));
}

/** Where what takes minutes to build is kept for all checkouts of a user. XDG_CACHE_HOME moves it. */
export function userCache(env: NodeJS.ProcessEnv = process.env): string {
  return path.resolve(env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'examhall');
}
