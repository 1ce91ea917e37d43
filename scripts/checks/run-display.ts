import type { FileResult } from './tap-report.ts';

/** Shows the progress of a run of test files: one line on a terminal, a line every 15 seconds elsewhere. */
export interface RunDisplay {
  /** Prints a line above the progress. */
  line(text: string): void;
  finished(result: FileResult): void;
  /** Removes the progress line. */
  end(): void;
}

export interface RunPlan {
  readonly files: readonly string[];
  /** Files at the same time. */
  readonly lanes: number;
  /** Returns the expected duration of a file in milliseconds. */
  expected(file: string): number;
}

const WIDTH = 24;
const REDRAW_MS = 1_000;
const PLAIN_MS = 15_000;
/** Share of the expected work after which the finished files correct the expectation. */
const ENOUGH = 0.05;

/** Opens the display of a run that starts now. */
export function openRunDisplay(
  plan: RunPlan,
  stream: Pick<NodeJS.WriteStream, 'write' | 'isTTY'> = process.stdout,
): RunDisplay {
  const isTerminal = stream.isTTY === true;
  const began = performance.now();
  let done = 0;
  let lastFinishedAt = began;
  const work = openEstimate(plan);
  const clear = isTerminal ? '\r\x1b[2K' : '';

  function progress(): string {
    const now = performance.now();
    const left = Math.max(0, work.leftMs(lastFinishedAt - began) - (now - lastFinishedAt));
    const counts = `${done}/${plan.files.length} files, ${clockTime(now - began)} elapsed, about ${clockTime(left)} left`;
    if (!isTerminal) return counts;
    const share = plan.files.length === 0 ? 1 : work.share();
    return `  ${'█'.repeat(Math.round(share * WIDTH)).padEnd(WIDTH, '░')} ${counts}`;
  }

  const draw = () => void stream.write(isTerminal ? `${clear}${progress()}` : `${progress()}\n`);
  const timer = setInterval(draw, isTerminal ? REDRAW_MS : PLAIN_MS);
  if (isTerminal) draw();

  return {
    line(text) {
      stream.write(`${clear}${text}\n`);
      if (isTerminal) draw();
    },
    finished({ file }) {
      done += 1;
      lastFinishedAt = performance.now();
      work.finish(file);
      if (isTerminal) draw();
    },
    end() {
      clearInterval(timer);
      if (isTerminal) stream.write(clear);
    },
  };
}

/** Estimates the remaining time from the expected durations, corrected by the pace of this run. */
export function openEstimate({ files, lanes, expected }: RunPlan) {
  const waiting = new Map(files.map((file) => [file, expected(file)]));
  const whole = sum(waiting);
  return {
    finish: (file: string) => void waiting.delete(file),
    /** Returns the finished share of the expected work. */
    share: () => (whole === 0 ? 1 : 1 - sum(waiting) / whole),
    /** Returns the remaining time after `elapsedMs`. */
    leftMs(elapsedMs: number): number {
      const rest = sum(waiting);
      // The longest files start first, so that these are running. On average, half of each is done.
      const running = [...waiting.values()].sort((a, b) => b - a).slice(0, lanes);
      const halves = running.reduce((total, duration) => total + duration, 0) / 2;
      const done = whole - rest;
      // Before enough is finished, the lanes are assumed to work at the pace of the stored durations.
      if (done < whole * ENOUGH) return rest / lanes;
      return ((rest - halves) * elapsedMs) / (done + halves);
    },
  };
}

function sum(durations: ReadonlyMap<string, number>): number {
  return [...durations.values()].reduce((total, duration) => total + duration, 0);
}

/** Returns a duration as minutes and seconds, `3:05`. */
function clockTime(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}
