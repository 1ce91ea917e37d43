/** Runs work of many addresses. */
export type FairGate = <T>(address: string, work: () => Promise<T>) => Promise<T>;

/**
 * Returns a gate that lets `concurrency` pieces of work run at once; addresses take turns with the others. A flood from one address then
 * waits for itself, and the requests of people inside do not wait behind thousands of logins. The limit of the requests in flight also
 * limits those that wait.
 */
export function openFairGate(concurrency: number): FairGate {
  /** Work that waits, by address, the next address first. An address that was served moves to the end. */
  const lanes = new Map<string, (() => void)[]>();
  let running = 0;

  function enter(address: string): Promise<void> {
    if (running < concurrency) {
      running += 1;
      return Promise.resolve();
    }
    return new Promise((start) => {
      const lane = lanes.get(address);
      if (lane === undefined) lanes.set(address, [start]);
      else lane.push(start);
    });
  }

  function leave(): void {
    for (const [address, starts] of lanes) {
      const start = starts.shift();
      lanes.delete(address);
      if (starts.length > 0) lanes.set(address, starts);
      start?.();
      return;
    }
    running -= 1;
  }

  return async (address, work) => {
    await enter(address);
    try {
      return await work();
    } finally {
      leave();
    }
  };
}
