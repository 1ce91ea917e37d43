import { parseArgs } from 'node:util';
import type { EngineName } from '#scripts/services/mongodb.ts';

export interface BenchOptions {
  /** In the order of execution. */
  runs: readonly Run[];
  /** Fewer rounds: shows that the bench works, not how fast the product is. */
  quick: boolean;
  /** True for every measure on every engine at full length; only such a run writes `docs/bench.md`. */
  whole: boolean;
  /** Takes the results of an earlier full run that failed, and carries out only what it lacks. */
  resume: boolean;
}

/** Returns the text of `npm run bench -- --help`. */
export function usageOf({ measures }: Pick<Choice, 'measures'>): string {
  const names = (named: boolean) =>
    measures.flatMap((measure) => (named === (measure.named === true) ? [measure.name] : [])).join(', ');
  return `npm run bench -- [options] [measure …]

  --only NAME     this measure; repeatable, and the name alone is enough (default: all but ${names(true)})
  --engine NAME   this MongoDB of those of the machine; repeatable (default: all)
  --quick         fewer rounds: shows that the bench works, not how fast the product is
  --resume        continues a full run that failed

Measures: ${names(false)}, ${names(true)}
Exit code: 0 for any ratio; 1 a measure failed; 2 an option is invalid.`;
}

/** One measure on one MongoDB. */
export interface Run {
  measure: string;
  /** Null for a measure without MongoDB. */
  on: EngineName | 'MONGODB_URL' | null;
}

/** The measures and engines that the options choose from. */
export interface Choice {
  /** The measures in their order. `mongodb`: the measure uses MongoDB. `named`: it runs only if an option names it. */
  measures: readonly { name: string; mongodb: boolean; named?: boolean }[];
  /** The engines of this machine, the best first. */
  engines: readonly EngineName[];
  env: NodeJS.ProcessEnv;
}

/**
 * Reads `--only NAME`, for which the name alone is enough, and `--engine NAME`, both repeatable, `--quick` and `--resume`.
 * @throws Error that names the invalid option
 */
export function readOptions(args: readonly string[], choice: Choice): BenchOptions {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      only: { type: 'string', multiple: true },
      engine: { type: 'string', multiple: true },
      quick: { type: 'boolean' },
      resume: { type: 'boolean' },
    },
  });
  const { engine = [], quick = false, resume = false } = values;
  const only = [...(values.only ?? []), ...positionals];
  const names = choice.measures.map(({ name }) => name);
  const unknown = only.filter((name) => !names.includes(name));
  if (unknown.length > 0) throw new Error(`unknown measure ${unknown.join(', ')}; known: ${names.join(', ')}`);
  const { servers, restricted } = serversOf(engine, choice);
  const runs = choice.measures
    .filter(({ name, named = false }) => (only.length === 0 ? !named : only.includes(name)))
    // The engines of a measure run one after the other, so that the machine's load changes little between compared figures.
    .flatMap(({ name, mongodb }): Run[] =>
      mongodb ? servers.map((on) => ({ measure: name, on })) : [{ measure: name, on: null }],
    );
  const whole = !quick && only.length === 0 && !restricted;
  if (resume && !whole) throw new Error('--resume continues a full run: leave out the other options');
  return { runs, quick, whole, resume };
}

/** Returns the servers: only that of MONGODB_URL if set, otherwise the machine's engines as restricted by `--engine` or EXAMHALL_ENGINE. */
function serversOf(
  wanted: readonly string[],
  { engines, env }: Choice,
): { servers: NonNullable<Run['on']>[]; restricted: boolean } {
  if (env.MONGODB_URL) {
    if (wanted.length > 0) throw new Error('MONGODB_URL names the server; unset it to use --engine');
    return { servers: ['MONGODB_URL'], restricted: false };
  }
  if (engines.length === 0) throw new Error('this machine can run no MongoDB; README.md lists the possible servers');
  const names = wanted.length > 0 || !env.EXAMHALL_ENGINE ? wanted : [env.EXAMHALL_ENGINE];
  const missing = names.filter((name) => !engines.some((engine) => engine === name));
  if (missing.length > 0) {
    throw new Error(`this machine cannot run ${missing.join(', ')}; it can run: ${engines.join(', ')}`);
  }
  const servers = engines.filter((engine) => names.length === 0 || names.includes(engine));
  return { servers, restricted: names.length > 0 };
}
