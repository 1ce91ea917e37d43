import type { Writable } from 'node:stream';
import pLimit from 'p-limit';

export type Progress = ReturnType<typeof openProgress>;

const WIDTH = 30;
const REDRAW_MS = 100;
const PLAIN_MS = 5_000;

/** Opens a progress display: a bar on a terminal; elsewhere one line every five seconds and at the end of each part. */
export function openProgress(stream: Writable & { isTTY?: boolean }) {
  const isTerminal = stream.isTTY === true;
  let title = '';
  let total = 0;
  let done = 0;
  let drawnAt = 0;
  let beganAt = 0;

  const seconds = () => `${((performance.now() - beganAt) / 1_000).toFixed(1)} s`;

  function draw(): void {
    drawnAt = performance.now();
    const share = total === 0 ? 0 : Math.min(1, done / total);
    const bar = '█'.repeat(Math.round(share * WIDTH)).padEnd(WIDTH, '░');
    stream.write(`\r\x1b[2K  ${title.padEnd(24)} ${bar} ${done}/${total}  ${seconds()}`);
  }

  /** Sets the number of finished steps, and the total if `of` is passed. */
  function reach(steps: number, of = total): void {
    [done, total] = [steps, of];
    if (performance.now() - drawnAt < (isTerminal ? REDRAW_MS : PLAIN_MS)) return;
    if (isTerminal) draw();
    else printLine();
  }

  function printLine(): void {
    drawnAt = performance.now();
    stream.write(`  ${title.padEnd(24)} ${done}/${total}\n`);
  }

  return {
    /** Begins a part with so many steps, 0 if unknown. The previous part must have ended. */
    begin(name: string, steps: number): void {
      [title, total, done, beganAt] = [name, steps, 0, performance.now()];
      if (isTerminal) draw();
      else drawnAt = beganAt;
    },
    step: () => reach(done + 1),
    reach,
    /** Ends the part and shows its result, `note`. */
    end(note: string): void {
      stream.write(`${isTerminal ? '\r\x1b[2K' : ''}  ${title.padEnd(24)} ${note}  (${seconds()})\n`);
    },
    line(text: string): void {
      stream.write(`${isTerminal ? '\r\x1b[2K' : ''}${text}\n`);
    },
  };
}

/** Runs one part, `work` for every item, at most `atOnce` at a time, and shows its progress. */
export async function runPart<T>(
  progress: Progress,
  title: string,
  items: readonly T[],
  work: (item: T, index: number) => Promise<void>,
  atOnce: number,
): Promise<void> {
  progress.begin(title, items.length);
  await inParallel(items, atOnce, async (item, index) => {
    await work(item, index);
    progress.step();
  });
  progress.end(`${items.length} of ${items.length}`);
}

/** Runs `work` for every item, at most `atOnce` at a time. At the first failure it rejects and begins no further item. */
export async function inParallel<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T, index: number) => Promise<void>,
): Promise<void> {
  const limit = pLimit(atOnce);
  try {
    await limit.map(items, work);
  } finally {
    limit.clearQueue();
  }
}
