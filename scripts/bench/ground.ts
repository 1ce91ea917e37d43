import type { Progress } from './progress.ts';
import type { Row } from './row.ts';

/** What every measure stands on. */
export interface Ground {
  mongodbUrl: string;
  redisUrl: string;
  quick: boolean;
  progress: Progress;
  /** A folder for logs of child processes; gone after the run. */
  folder: string;
}

/** Measures one thing and gives the rows of it, most important first. */
export type Measure = (ground: Ground) => Promise<Row[]>;
