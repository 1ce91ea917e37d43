/** `least`: more is better (jobs per second); `most`: less is better (time). */
export interface Aim {
  side: 'most' | 'least';
  ratio: number;
}

/** One thing that was measured. */
export interface Row {
  name: string;
  unit: 'ms' | '/s' | 's' | 'MiB';
  ours: Figures;
  /** Null where nothing stands beside ours. */
  reference: Figures | null;
  /** What the reference is, in a few words. */
  against: string;
  aim: Aim | null;
  /** What a reader should know about these numbers. */
  notes: readonly string[];
}

/** One line of the report. */
export interface ReportRow extends Row {
  /** The program that was MongoDB; null where no database takes part. */
  engine: string | null;
}

/** Groups the rows of one name, which were measured on one engine each. Groups and rows keep their order. */
export function rowsByName<Named extends Row>(rows: readonly Named[]): Named[][] {
  return [...Map.groupBy(rows, (row) => row.name).values()];
}

/** Ours divided by the reference, of the medians. */
export function ratioOf(row: Row): number | null {
  return row.reference === null ? null : row.ours.p50 / row.reference.p50;
}

export function meetsAim(row: Row): boolean | null {
  const ratio = ratioOf(row);
  if (ratio === null || row.aim === null) return null;
  return row.aim.side === 'most' ? ratio <= row.aim.ratio : ratio >= row.aim.ratio;
}

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
