import path from 'node:path';

/** Where pinned binaries are installed: one folder of the checkout, or EXAMHALL_TOOLS_DIR to share it between checkouts. */
export function toolsCache(env: NodeJS.ProcessEnv = process.env): string {
  return path.resolve(env.EXAMHALL_TOOLS_DIR || path.join(import.meta.dirname, '../../.cache/tools'));
}
