/**
 * `0 … length − 1` in an order that depends on nothing but the seed: Fisher–Yates over a generator of our own,
 * because an attempt's order must come out the same on every process and every version of Node.
 */
export function shuffledPositions(length: number, seed: string): number[] {
  const next = generator(seed);
  const positions = Array.from({ length }, (_, position) => position);
  for (let last = length - 1; last > 0; last -= 1) {
    const other = Math.floor(next() * (last + 1));
    const kept = positions[last] as number;
    positions[last] = positions[other] as number;
    positions[other] = kept;
  }
  return positions;
}

/**
 * sfc32 seeded by xmur3 over the seed's UTF-16 units; numbers in [0, 1). Good enough to spread orders, and no
 * secret: whoever knows the seed knows the order.
 */
function generator(seed: string): () => number {
  const hash = seedHash(seed);
  let [a, b, c, d] = [hash(), hash(), hash(), hash()];
  const next = () => {
    const sum = (a + b + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum;
    c |= 0;
    return (sum >>> 0) / 4_294_967_296;
  };
  for (let warm = 0; warm < 12; warm += 1) next();
  return next;
}

function seedHash(seed: string): () => number {
  let hash = 1_779_033_703 ^ seed.length;
  for (let index = 0; index < seed.length; index += 1) {
    hash = Math.imul(hash ^ seed.charCodeAt(index), 3_432_918_353);
    hash = (hash << 13) | (hash >>> 19);
  }
  return () => {
    hash = Math.imul(hash ^ (hash >>> 16), 2_246_822_507);
    hash = Math.imul(hash ^ (hash >>> 13), 3_266_489_909);
    hash ^= hash >>> 16;
    return hash >>> 0;
  };
}
