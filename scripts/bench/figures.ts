/** What is told of many samples. */
export interface Figures {
  p50: number;
  p99: number;
}

export function figuresOf(samples: readonly number[]): Figures {
  return { p50: quantile(samples, 0.5), p99: quantile(samples, 0.99) };
}

/** The smallest sample that is not below the given share of all samples (nearest rank). NaN of no samples. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** Of rates the bad end is the low one. */
export function ratesOf(rates: readonly number[]): Figures {
  return { p50: quantile(rates, 0.5), p99: Math.min(...rates) };
}
