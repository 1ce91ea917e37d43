import { mulberry32 } from '#scripts/sandbox/mulberry32.ts';

/** Random choices that depend only on their seed, so that a run can be repeated. */
export interface Random {
  /** Returns a number in [0, 1). */
  fraction(): number;
  /** Returns true in this share of the calls. */
  chance(share: number): boolean;
  /** Returns a whole number from 0 to `below` − 1. */
  below(below: number): number;
  /** Returns an item of the list. @throws Error if the list is empty */
  pick<T>(list: readonly T[]): T;
}

/** Returns random choices for this seed, which is hashed by FNV-1a. */
export function seededRandom(seed: string): Random {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(seed)) hash = Math.imul(hash ^ byte, 0x01000193);
  const fraction = mulberry32(hash);
  const below = (limit: number) => Math.floor(fraction() * limit);
  return {
    fraction,
    below,
    chance: (share) => fraction() < share,
    pick(list) {
      const index = below(list.length);
      if (index >= list.length) throw new Error('nothing to pick from');
      return list[index] as (typeof list)[number];
    },
  };
}
