/** Random choices that depend on nothing but their seed, so that a run can be repeated. */
export interface Random {
  /** In [0, 1). */
  fraction(): number;
  /** True in this share of the calls. */
  chance(share: number): boolean;
  /** A whole number from 0 to `below` − 1. */
  below(below: number): number;
  /** Throws on an empty list. */
  pick<T>(list: readonly T[]): T;
}

/** Mulberry32 over an FNV-1a hash of the seed: enough to spread choices. */
export function seededRandom(seed: string): Random {
  let state = 0x811c9dc5;
  for (const byte of Buffer.from(seed)) state = Math.imul(state ^ byte, 0x01000193);

  function fraction(): number {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }
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
