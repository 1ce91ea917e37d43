/**
 * A free seat number that keeps a link within `limit` students, or null when it is full. `taken` are the numbers of those who
 * sit, `unnumbered` counts those who came while the link had no limit; `random` is in [0, 1).
 *
 * A seat is drawn only below a bound L with L + (everybody who sits elsewhere) ≤ limit: seats are unique, so however many draw
 * at once from what they have read, no more than `limit` can sit, also after the limit was lowered.
 */
export function freeSeat(
  { taken, unnumbered, limit }: { taken: readonly number[]; unnumbered: number; limit: number },
  random: number,
): number | null {
  const ascending = [...taken].sort((a, b) => a - b);
  let below = ascending.length;
  let bound = limit - unnumbered;
  // Who sits at or above the bound takes a place from it, and that lowers the bound.
  while (below > 0 && (ascending[below - 1] ?? 0) >= bound) {
    below -= 1;
    bound -= 1;
  }
  const free = bound - below;
  if (free <= 0) return null;
  let seat = Math.floor(random * free);
  for (let n = 0; n < below && (ascending[n] ?? 0) <= seat; n++) seat += 1;
  return seat;
}
