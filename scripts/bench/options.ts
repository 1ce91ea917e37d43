import { parseArgs } from 'node:util';
import type { EngineName } from '#scripts/services/mongodb.ts';

export interface BenchOptions {
  /** In the order in which they are carried out. */
  runs: readonly Run[];
  /** Fewer rounds: shows that it works, not how fast it is. */
  quick: boolean;
  /** Every measure on every engine at full length, which `docs/bench.md` shows. */
  whole: boolean;
}

/** One measure on one MongoDB. */
export interface Run {
  measure: string;
  /** Null where no MongoDB takes part. */
  on: EngineName | 'MONGODB_URL' | null;
}

/** What there is to choose from. */
export interface Choice {
  /** Names of the measures in their order; `mongodb`: a MongoDB takes part. */
  measures: readonly { name: string; mongodb: boolean }[];
  /** The engines of this machine, the best first. */
  engines: readonly EngineName[];
  env: NodeJS.ProcessEnv;
}

/** Reads `--only NAME` and `--engine NAME` (both repeatable) and `--quick`. @throws Error that names what is wrong */
export function readOptions(args: readonly string[], choice: Choice): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: 'string', multiple: true },
      engine: { type: 'string', multiple: true },
      quick: { type: 'boolean' },
    },
  });
  const { only = [], engine = [], quick = false } = values;
  const names = choice.measures.map(({ name }) => name);
  const unknown = only.filter((name) => !names.includes(name));
  if (unknown.length > 0) throw new Error(`no measure is named ${unknown.join(', ')}; there are: ${names.join(', ')}`);
  const { servers, restricted } = serversOf(engine, choice);
  const runs = choice.measures
    .filter(({ name }) => only.length === 0 || only.includes(name))
    // Both engines of a measure one after the other: the machine changes least between figures that are compared.
    .flatMap(({ name, mongodb }): Run[] =>
      mongodb ? servers.map((on) => ({ measure: name, on })) : [{ measure: name, on: null }],
    );
  return { runs, quick, whole: !quick && only.length === 0 && !restricted };
}

/** MONGODB_URL names the only server. Otherwise `--engine`, else EXAMHALL_ENGINE, restricts the engines of this machine. */
function serversOf(
  wanted: readonly string[],
  { engines, env }: Choice,
): { servers: NonNullable<Run['on']>[]; restricted: boolean } {
  if (env.MONGODB_URL) {
    if (wanted.length > 0) throw new Error('MONGODB_URL names the server; unset it to choose by --engine');
    return { servers: ['MONGODB_URL'], restricted: false };
  }
  if (engines.length === 0) throw new Error('this machine can run no MongoDB; README.md lists what it may be');
  const names = wanted.length > 0 || !env.EXAMHALL_ENGINE ? wanted : [env.EXAMHALL_ENGINE];
  const missing = names.filter((name) => !engines.some((engine) => engine === name));
  if (missing.length > 0) {
    throw new Error(`this machine cannot run ${missing.join(', ')}; it can run: ${engines.join(', ')}`);
  }
  const servers = engines.filter((engine) => names.length === 0 || names.includes(engine));
  return { servers, restricted: names.length > 0 };
}
