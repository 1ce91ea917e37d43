/** The bound of a ratio. `least` is a minimum (jobs per second), `most` a maximum (time). */
export interface Aim {
  side: 'most' | 'least';
  ratio: number;
}

/** One measured figure. */
export interface Row {
  name: string;
  unit: 'ms' | '/s' | 's' | 'MiB';
  ours: Figures;
  /** Null without a reference. */
  reference: Figures | null;
  /** Short name of the reference. */
  against: string;
  aim: Aim | null;
  /** Conditions of the measurement. */
  notes: readonly string[];
}

/** One line of the report. */
export interface ReportRow extends Row {
  /** The program that served as MongoDB; null for a measure without a database. */
  engine: string | null;
}

/** Groups the rows by name; the rows of a group differ in their engine. Groups and rows keep their order. */
export function rowsByName<Named extends Row>(rows: readonly Named[]): Named[][] {
  return [...Map.groupBy(rows, (row) => row.name).values()];
}

/** Returns our median divided by that of the reference; null without a reference. */
export function ratioOf(row: Row): number | null {
  return row.reference === null ? null : row.ours.p50 / row.reference.p50;
}

/** Returns whether the ratio meets the aim; null without a ratio or an aim. */
export function meetsAim(row: Row): boolean | null {
  const ratio = ratioOf(row);
  if (ratio === null || row.aim === null) return null;
  return row.aim.side === 'most' ? ratio <= row.aim.ratio : ratio >= row.aim.ratio;
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

/** Returns the smallest sample that this share of all samples does not exceed (nearest rank); NaN without samples. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** Returns the figures of rates. Their `p99` is the lowest rate, because for rates the worst value is the lowest. */
export function ratesOf(rates: readonly number[]): Figures {
  return { p50: quantile(rates, 0.5), p99: Math.min(...rates) };
}
