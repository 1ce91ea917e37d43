/** Shows how far each part of the demo has come. */
export interface Progress {
  /** Begins a part of so many steps; the part before it must have been ended. */
  begin(title: string, total: number): void;
  step(): void;
  /** So many steps are done. */
  reach(steps: number): void;
  /** Ends the part; `note` is what came of it. */
  end(note: string): void;
  line(text: string): void;
}

const WIDTH = 30;
const REDRAW_MS = 100;
const PLAIN_MS = 5_000;

/** A bar that is redrawn on a terminal; elsewhere a line at the end of each part and one every five seconds. */
export function openProgress(stream: NodeJS.WriteStream): Progress {
  const isTerminal = stream.isTTY === true;
  let title = '';
  let total = 0;
  let done = 0;
  let drawnAt = 0;
  let beganAt = 0;

  const seconds = () => `${((performance.now() - beganAt) / 1_000).toFixed(1)} s`;

  function draw(): void {
    drawnAt = performance.now();
    const share = total === 0 ? 1 : Math.min(1, done / total);
    const bar = '█'.repeat(Math.round(share * WIDTH)).padEnd(WIDTH, '░');
    stream.write(`\r\x1b[2K  ${title.padEnd(24)} ${bar} ${done}/${total}  ${seconds()}`);
  }

  function reach(steps: number): void {
    done = steps;
    if (performance.now() - drawnAt < (isTerminal ? REDRAW_MS : PLAIN_MS)) return;
    if (isTerminal) draw();
    else tell();
  }

  function tell(): void {
    drawnAt = performance.now();
    stream.write(`  ${title.padEnd(24)} ${done}/${total}\n`);
  }

  return {
    begin(name, steps) {
      [title, total, done, beganAt] = [name, steps, 0, performance.now()];
      if (isTerminal) draw();
      else drawnAt = beganAt;
    },
    step: () => reach(done + 1),
    reach,
    end(note) {
      stream.write(`${isTerminal ? '\r\x1b[2K' : ''}  ${title.padEnd(24)} ${note}  (${seconds()})\n`);
    },
    line(text) {
      stream.write(`${isTerminal ? '\r\x1b[2K' : ''}${text}\n`);
    },
  };
}

/** Calls of the demo at once. */
export const SOCKETS = 24;

/** One part of the demo over all of something, with its bar. */
export async function part<T>(
  progress: Progress,
  title: string,
  items: readonly T[],
  work: (item: T, index: number) => Promise<void>,
): Promise<void> {
  progress.begin(title, items.length);
  await inParallel([...items.entries()], SOCKETS, async ([index, item]) => {
    await work(item, index);
    progress.step();
  });
  progress.end(`${items.length} of ${items.length}`);
}

/** Does `work` for every item, at most `limit` at a time, in order of beginning. The first failure ends it. */
export async function inParallel<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  await Promise.all(
    Array.from({ length: Math.min(limit, items.length) }, async () => {
      // One iterator for all: whoever is free takes the next.
      for (const item of queue) await work(item);
    }),
  );
}
