import type { Redis } from 'ioredis';
import { SECOND } from '#shared/kernel/time.ts';
import { keepIoredis } from './connection.ts';
import { type Log, within } from './link.ts';

/** A cell as it is then (null = there is none); `unavailable` while Redis is away or slow. */
type CellUpdate = { kind: 'cell'; text: string | null } | { kind: 'unavailable' };

/** Small texts that processes share and change one after another. No method throws or takes longer than the bound. */
export interface SharedCells {
  /**
   * Stores what `change` makes of the text that is there (null = none), if nobody else stored another meanwhile; else
   * `change` is asked again. null from it = leave it. Returns what is there afterwards.
   */
  update(key: string, change: (text: string | null) => string | null): Promise<CellUpdate>;
  close(): Promise<void>;
}

const TRIES = 8;
/** After Redis ran out of time, it is left alone for this long: it may cost one call the bound, not all. */
const QUIET_MS = SECOND;
/** ARGV: what was read (with a mark before it; nothing = none was there), what takes its place, for how long. */
const SWAP = `
local held = redis.call('GET', KEYS[1])
if (held and 't' .. held or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`;

export function openSharedCells(deps: {
  redisUrl: string;
  log: Log;
  /** What is lost while Redis is away, for the log. */
  purpose: string;
  prefix: string;
  /** Of a cell that nobody changes any more. */
  keepMs: number;
  boundMs?: number;
}): SharedCells {
  const { boundMs = 100 } = deps;
  const link = keepIoredis(deps);

  async function swap(client: Redis, key: string, change: (text: string | null) => string | null) {
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const held = await client.get(key);
      const next = change(held);
      if (next === null) return held;
      const expected = held === null ? '' : `t${held}`;
      if ((await client.eval(SWAP, 1, key, expected, next, deps.keepMs)) === 1) return next;
    }
    // Everybody changes it at once, so what is there is of this very moment.
    return client.get(key);
  }

  return {
    async update(key, change) {
      const client = link.current();
      if (client === null) return { kind: 'unavailable' };
      try {
        const text = await within(boundMs, swap(client, `${deps.prefix}:${key}`, change));
        return { kind: 'cell', text };
      } catch (error) {
        link.drop(client, error, QUIET_MS);
        return { kind: 'unavailable' };
      }
    },
    close: () => link.close(),
  };
}
