/** Signals that ask for a stop. HUP is what a closed terminal sends. */
const STOP_SIGNALS: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP'];
/**
 * One Ctrl-C can arrive twice: from the terminal, and passed on by npm. Only a signal later than this is a second wish.
 */
const ECHO_MS = 700;

/** Calls `first` at the first stop signal and `again` at a later one. */
export function onStopSignals(handlers: { first: (signal: NodeJS.Signals) => void; again: () => void }): void {
  let firstAt: number | undefined;
  for (const signal of STOP_SIGNALS) {
    process.on(signal, () => {
      const now = performance.now();
      if (firstAt === undefined) {
        firstAt = now;
        handlers.first(signal);
      } else if (now - firstAt > ECHO_MS) handlers.again();
    });
  }
}
