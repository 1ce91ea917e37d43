import type { Progress } from '#scripts/start/progress.ts';

/** Resources of every measure. */
export interface BenchContext {
  /** Empty for a measure without MongoDB. */
  mongodbUrl: string;
  redisUrl: string;
  /** Process ids of the stores that this run has started; undefined for others. */
  stores: { mongodb: number | undefined; redis: number | undefined };
  /** Fewer rounds: shows that the bench works, not how fast the product is. */
  quick: boolean;
  progress: Progress;
  /** A folder for the logs of child processes; deleted after the run. */
  folder: string;
}

/** Measures one operation and returns its rows, most important first. */
export type Measure = (context: BenchContext) => Promise<Row[]>;

/** One measured figure. */
export interface Row {
  name: string;
  unit: 'ms' | '/s' | 's';
  ours: Figures;
  /** Null without a reference. */
  reference: Figures | null;
  /** Short name of the reference. */
  against: string;
  /** The bound of the ratio. `least` is a minimum (jobs per second), `most` a maximum (time). */
  aim: { side: 'most' | 'least'; ratio: number } | null;
  /** Conditions of the measurement. */
  notes: readonly string[];
}

/** Quantiles of many samples. */
export interface Figures {
  p50: number;
  p99: number;
}

/** Returns median and 99th percentile of samples. */
export function figuresOf(samples: readonly number[]): Figures {
  return { p50: quantile(samples, 0.5), p99: quantile(samples, 0.99) };
}

/** Returns the figures of rates. Their `p99` is the lowest rate, because for rates the worst value is the lowest. */
export function ratesOf(rates: readonly number[]): Figures {
  return { p50: quantile(rates, 0.5), p99: Math.min(...rates) };
}

/** Returns the smallest sample that this share of all samples does not exceed (nearest rank); NaN without samples. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** One operation of each side. Both return their own figure (ms, or a rate), so that each may prepare without being timed. */
interface Contest {
  ours(): Promise<number>;
  reference(): Promise<number>;
  rounds: number;
  /** Rounds that are not counted, because caches, connections and the JIT are still cold. */
  warmUp: number;
}

/**
 * Runs both sides in turn, so that other load of the machine affects both equally. The order changes with every round, so that
 * neither side always profits from the caches of the other. Returns the figures of the counted rounds.
 */
export async function alternate(
  { progress }: Pick<BenchContext, 'progress'>,
  { ours, reference, rounds, warmUp }: Contest,
): Promise<{ ours: number[]; reference: number[] }> {
  const figures = { ours: [] as number[], reference: [] as number[] };
  const sides = [['ours', ours] as const, ['reference', reference] as const];
  for (let round = 0; round < warmUp + rounds; round++) {
    for (const [side, run] of round % 2 === 0 ? sides : sides.toReversed()) {
      const figure = await run();
      if (round >= warmUp) figures[side].push(figure);
    }
    progress.reach(round + 1, warmUp + rounds);
  }
  return figures;
}

/** Returns the milliseconds that `work` takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}
