/**
 * Returns files that together have every shape of all files, at little cost. Files with the lowest cost for each new shape come first.
 * Files that later ones make superfluous are left out.
 */
export function coverOf(
  shapes: ReadonlyMap<string, ReadonlySet<string>>,
  costOf: (file: string) => number,
): ReadonlySet<string> {
  const missing = new Set([...shapes.values()].flatMap((all) => [...all]));
  const left = new Map(shapes);
  const chosen: string[] = [];
  while (missing.size > 0) {
    let best: { file: string; price: number } | undefined;
    for (const [file, all] of left) {
      const added = all.intersection(missing).size;
      if (added === 0) left.delete(file);
      else if (best === undefined || costOf(file) / added < best.price) best = { file, price: costOf(file) / added };
    }
    if (best === undefined) break;
    chosen.push(best.file);
    for (const shape of left.get(best.file) ?? []) missing.delete(shape);
    left.delete(best.file);
  }
  return withoutSpare(
    chosen.sort((a, b) => costOf(b) - costOf(a)),
    shapes,
  );
}

/** Removes each file all of whose shapes other files have as well, the first ones first. */
function withoutSpare(files: readonly string[], shapes: ReadonlyMap<string, ReadonlySet<string>>): Set<string> {
  const kept = new Set(files);
  const counts = new Map<string, number>();
  for (const file of files) for (const shape of shapes.get(file) ?? []) counts.set(shape, (counts.get(shape) ?? 0) + 1);
  for (const file of files) {
    const all = [...(shapes.get(file) ?? [])];
    if (!all.every((shape) => (counts.get(shape) ?? 0) > 1)) continue;
    kept.delete(file);
    for (const shape of all) counts.set(shape, (counts.get(shape) ?? 0) - 1);
  }
  return kept;
}
