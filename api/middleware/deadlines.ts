/** One limit of time for many short things: cheaper than a timer each, because nearly all end in time. */
export interface Deadlines {
  /** Calls `late` once `limitMs` has passed, at most CHECK_MS too late, unless removed before. */
  add(late: () => void): Deadline;
  remove(deadline: Deadline): void;
}

export interface Deadline {
  at: number;
  late: () => void;
}

/** As often as Node looks after its own limits here. */
const CHECK_MS = 500;

export function openDeadlines(limitMs: number): Deadlines {
  // Insertion order is order of time, so a check stops at the first that still has some left.
  const waiting = new Set<Deadline>();
  let timer: NodeJS.Timeout | undefined;

  function check(): void {
    const now = performance.now();
    for (const deadline of waiting) {
      if (deadline.at > now) return;
      waiting.delete(deadline);
      deadline.late();
    }
    clearInterval(timer);
    timer = undefined;
  }

  return {
    add(late) {
      const deadline = { at: performance.now() + limitMs, late };
      waiting.add(deadline);
      timer ??= setInterval(check, Math.min(CHECK_MS, limitMs / 8)).unref();
      return deadline;
    },
    remove(deadline) {
      waiting.delete(deadline);
    },
  };
}
