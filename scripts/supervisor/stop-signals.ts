/** Signals that request a stop. A closed terminal sends SIGHUP. */
const STOP_SIGNALS: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP'];
/** One Ctrl-C may arrive twice, from the terminal and forwarded by npm. Only a signal after this time counts as a second one. */
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
