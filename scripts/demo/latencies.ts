/** Milliseconds of many calls by what they were for. */
export interface Latencies {
  add(name: string, ms: number): void;
  /** Names in the order in which they were first seen. */
  names(): string[];
  count(name: string): number;
  /** The smallest value that this share of the calls did not pass; 0 without calls. */
  quantile(name: string, share: number): number;
}

export function openLatencies(): Latencies {
  const values = new Map<string, number[]>();
  return {
    add(name, ms) {
      const list = values.get(name);
      if (list === undefined) values.set(name, [ms]);
      else list.push(ms);
    },
    names: () => [...values.keys()],
    count: (name) => values.get(name)?.length ?? 0,
    quantile(name, share) {
      const sorted = (values.get(name) ?? []).toSorted((a, b) => a - b);
      return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
    },
  };
}
