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

/** Returns a generator of numbers in [0, 1) that depend only on the seed, a whole number. Good enough to spread choices in tests. */
export function mulberry32(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
