/** The import cycles of a graph, each once, written from its alphabetically first file. */
export function findCycles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const cycles = new Map<string, string[]>();
  const done = new Set<string>();
  const path: string[] = [];

  function visit(file: string): void {
    const start = path.indexOf(file);
    if (start >= 0) {
      const cycle = fromFirst(path.slice(start));
      cycles.set(cycle.join('\n'), cycle);
      return;
    }
    if (done.has(file)) return;
    path.push(file);
    for (const next of graph.get(file) ?? []) visit(next);
    path.pop();
    done.add(file);
  }

  for (const file of [...graph.keys()].sort()) visit(file);
  return [...cycles.values()];
}

function fromFirst(cycle: readonly string[]): string[] {
  const first = cycle.indexOf([...cycle].sort()[0] ?? '');
  return [...cycle.slice(first), ...cycle.slice(0, first)];
}
