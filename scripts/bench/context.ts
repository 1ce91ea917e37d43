import type { Log } from '#infra/log/log.ts';
import type { Row } from './row.ts';

/** Resources of every measure. */
export interface BenchContext {
  /** Empty for a measure without MongoDB. */
  mongodbUrl: string;
  redisUrl: string;
  /** Process ids of the stores that this run has started; undefined for others. */
  stores: { mongodb: number | undefined; redis: number | undefined };
  quick: boolean;
  progress: Progress;
  /** A folder for the logs of child processes; deleted after the run. */
  folder: string;
}

/** Measures one operation and returns its rows, most important first. */
export type Measure = (context: BenchContext) => Promise<Row[]>;

/** Shows progress on standard error: a bar on a terminal, otherwise one line for each measure. The report goes to standard output. */
export interface Progress {
  begin(what: string): void;
  step(done: number, of: number): void;
  line(line: string): void;
  end(): void;
}

const BAR = 30;
const REDRAW_MS = 100;

/** Opens the progress display. */
export function openProgress(terminal: NodeJS.WriteStream): Progress {
  let what = '';
  let drawnAt = 0;
  const clear = () => terminal.isTTY && terminal.write('\r\x1b[2K');
  return {
    begin(name) {
      what = name;
      drawnAt = 0;
      if (!terminal.isTTY) terminal.write(`bench: ${name}\n`);
    },
    step(done, of) {
      if (!terminal.isTTY || (performance.now() - drawnAt < REDRAW_MS && done < of)) return;
      drawnAt = performance.now();
      const full = Math.round((done / of) * BAR);
      terminal.write(`\r\x1b[2K${'█'.repeat(full)}${'░'.repeat(BAR - full)} ${what}`);
    },
    line(line) {
      clear();
      terminal.write(`bench: ${line}\n`);
    },
    end: () => void clear(),
  };
}

const silent = (): void => undefined;

/** A log that discards every line. */
export const quietLog: Log = {
  debug: silent,
  info: silent,
  warn: silent,
  error: silent,
  fatal: silent,
  child: () => quietLog,
};
