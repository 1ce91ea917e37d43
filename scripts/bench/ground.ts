import type { Log } from '#infra/log/log.ts';
import type { Row } from './row.ts';

/** What every measure stands on. */
export interface Ground {
  /** Empty for a measure in which no MongoDB takes part. */
  mongodbUrl: string;
  redisUrl: string;
  quick: boolean;
  progress: Progress;
  /** A folder for logs of child processes; gone after the run. */
  folder: string;
}

/** Measures one thing and gives the rows of it, most important first. */
export type Measure = (ground: Ground) => Promise<Row[]>;

/** A moving line on a terminal, one plain line per measure elsewhere. All on standard error: the report goes to standard output. */
export interface Progress {
  begin(what: string): void;
  step(done: number, of: number): void;
  say(line: string): void;
  end(): void;
}

const BAR = 30;
const REDRAW_MS = 100;

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
    say(line) {
      clear();
      terminal.write(`bench: ${line}\n`);
    },
    end: () => void clear(),
  };
}

const silent = (): void => undefined;

/** A log for parts that are measured here and not watched. */
export const quietLog: Log = {
  debug: silent,
  info: silent,
  warn: silent,
  error: silent,
  fatal: silent,
  child: () => quietLog,
};
