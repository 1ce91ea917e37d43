export type Random = ReturnType<typeof seededRandom>;

/** Returns random choices that depend only on the seed, so that a run can be repeated. The seed is hashed by FNV-1a. */
export function seededRandom(seed: string) {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(seed)) hash = Math.imul(hash ^ byte, 0x01000193);
  const fraction = mulberry32(hash);
  const below = (limit: number) => Math.floor(fraction() * limit);
  return {
    fraction,
    below,
    /** Returns true in this share of the calls. */
    chance: (share: number) => fraction() < share,
    /** Returns an item of the list, which must not be empty. */
    pick: <T>(list: readonly T[]) => list[below(list.length)] as T,
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
