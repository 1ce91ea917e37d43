/** Time that passes only when nothing else can happen. */
export interface VirtualTime {
  /** Milliseconds since the beginning. */
  now(): number;
  /** Resolves after `ms` of this time. */
  pause(ms: number): Promise<void>;
  /** Passes time until nothing is due before `endMs`. @throws an error of work that the test started with `spawn` */
  run(endMs: number): Promise<void>;
  /** Starts work whose failure ends the run. */
  spawn(work: () => Promise<void>): void;
}

/** Opens a clock for simulations of hours in a second. */
export function virtualTime(): VirtualTime {
  /** Times and what is due then, the next one last. */
  const due: { at: number; resolve: () => void }[] = [];
  let now = 0;
  let failure: { error: unknown } | undefined;

  function pause(ms: number): Promise<void> {
    const at = now + ms;
    const { promise, resolve } = Promise.withResolvers<void>();
    let [from, to] = [0, due.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((due[middle]?.at ?? 0) > at) from = middle + 1;
      else to = middle;
    }
    due.splice(from, 0, { at, resolve });
    return promise;
  }

  return {
    now: () => now,
    pause,
    spawn(work) {
      work().catch((error: unknown) => {
        failure ??= { error };
      });
    },
    async run(endMs) {
      for (;;) {
        // Whatever the last event has caused happens at its time.
        await new Promise(setImmediate);
        if (failure !== undefined) throw failure.error;
        const next = due.at(-1);
        if (next === undefined || next.at > endMs) break;
        due.pop();
        now = next.at;
        next.resolve();
      }
      now = endMs;
    },
  };
}
