/** Wakes the loop of a stream: rung by changes, by its end, or by time. A ring that nobody waits for is kept for the next wait. */
export interface Alarm {
  ring: () => void;
  /** Resolves with true at the next ring, with false after so long (ms). */
  wait(ms: number): Promise<boolean>;
  /** Resolves after so long, however often it rings meanwhile (ms). */
  pause(ms: number): Promise<void>;
}

export function openAlarm(): Alarm {
  let rung = false;
  let wake: (() => void) | null = null;
  return {
    ring() {
      rung = true;
      wake?.();
    },
    async wait(ms) {
      if (!rung) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        wake = null;
      }
      const wasRung = rung;
      rung = false;
      return wasRung;
    },
    pause: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  };
}
