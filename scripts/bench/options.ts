import { parseArgs } from 'node:util';

export interface BenchOptions {
  /** Names of the measures to run; empty = all. */
  only: readonly string[];
  /** Fewer rounds: shows that it works, not how fast it is. */
  quick: boolean;
}

/** Reads `--only NAME` (repeatable) and `--quick`. @throws Error that names what is wrong */
export function readOptions(args: readonly string[], known: readonly string[]): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: { only: { type: 'string', multiple: true }, quick: { type: 'boolean' } },
  });
  const only = values.only ?? [];
  const unknown = only.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`no measure is named ${unknown.join(', ')}; there are: ${known.join(', ')}`);
  return { only, quick: values.quick ?? false };
}
