/**
 * Runs `turn` at once and then every `everyMs`, never twice at a time. If a turn takes longer, the next one follows at once. `turn` must
 * not reject.
 *
 * The second turn follows after `phase` times `everyMs`. Processes that start together, as after a deploy, get different phases, so that
 * the database does not receive all their polls at once.
 */
export function startLoop({ everyMs, phase }: { everyMs: number; phase: number }, turn: () => Promise<unknown>) {
  let timer: NodeJS.Timeout;
  let stopped = false;
  async function next(waitMs: number): Promise<void> {
    const began = performance.now();
    await turn();
    if (stopped) return;
    timer = setTimeout(next, Math.max(0, waitMs - (performance.now() - began)), everyMs);
  }
  timer = setTimeout(next, 0, everyMs * phase);
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
