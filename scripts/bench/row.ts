import type { Figures } from './figures.ts';

/** `least`: more is better (jobs per second); `most`: less is better (time). */
export interface Aim {
  side: 'most' | 'least';
  ratio: number;
}

/** One line of the report. */
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

/** Ours divided by the reference, of the medians. */
export function ratioOf(row: Row): number | null {
  return row.reference === null ? null : row.ours.p50 / row.reference.p50;
}

export function meetsAim(row: Row): boolean | null {
  const ratio = ratioOf(row);
  if (ratio === null || row.aim === null) return null;
  return row.aim.side === 'most' ? ratio <= row.aim.ratio : ratio >= row.aim.ratio;
}
