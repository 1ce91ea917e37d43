import type { Redis } from 'ioredis';
import { SECOND } from '#shared/kernel/time.ts';
import { keepIoredis } from './connection.ts';
import { type LinkLog, withReplyTimeout } from './link.ts';

/** The text of a cell after an update (null: the cell does not exist), or `unavailable` if Redis is unreachable or slow. */
type CellUpdate = { kind: 'cell'; text: string | null } | { kind: 'unavailable' };

/** Small texts that processes share and change one after another. No method throws or takes longer than `boundMs`. */
export interface SharedCells {
  /**
   * Replaces the text of a cell by the result of `change`, which receives the current text (null: the cell does not exist). If
   * another process changed the cell meanwhile, `change` is called again with its text. If `change` returns null, the cell stays
   * as it is. Returns the text afterwards.
   */
  update(key: string, change: (text: string | null) => string | null): Promise<CellUpdate>;
  close(): Promise<void>;
}

/** Maximum number of compare-and-set attempts of one update. */
const MAX_ATTEMPTS = 8;
/** Pause before the next dial after a call timed out. A slow Redis then delays one call by `boundMs`, not every call. */
const QUIET_MS = SECOND;
/**
 * Sets a cell if its text has not changed. ARGV: the text that was read, after the mark `t` (empty: the cell did not exist); the
 * new text; its time to live in milliseconds.
 */
const SWAP = `
local held = redis.call('GET', KEYS[1])
if (held and 't' .. held or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`;

/** Opens cells in Redis that all processes share, below one key prefix. */
export function openSharedCells(deps: {
  redisUrl: string;
  log: LinkLog;
  /** The use of the link, for the log. */
  purpose: string;
  prefix: string;
  /** Time after its last change until a cell expires. */
  lifetimeMs: number;
  /** Time limit of an update. Default 100. */
  boundMs?: number;
}): SharedCells {
  const { boundMs = 100 } = deps;
  const link = keepIoredis(deps);

  async function swap(client: Redis, key: string, change: (text: string | null) => string | null) {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const held = await client.get(key);
      const next = change(held);
      if (next === null) return held;
      const expected = held === null ? '' : `t${held}`;
      if ((await client.eval(SWAP, 1, key, expected, next, deps.lifetimeMs)) === 1) return next;
    }
    // Other processes changed the cell at every attempt, so its text is recent: return it without our change.
    return client.get(key);
  }

  return {
    async update(key, change) {
      const client = link.current();
      if (client === null) return { kind: 'unavailable' };
      try {
        const text = await withReplyTimeout(boundMs, swap(client, `${deps.prefix}:${key}`, change));
        return { kind: 'cell', text };
      } catch (error) {
        link.drop(client, error, QUIET_MS);
        return { kind: 'unavailable' };
      }
    },
    close: () => link.close(),
  };
}
