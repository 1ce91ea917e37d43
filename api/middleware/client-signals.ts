import { type Exchange, isGone } from './exchange.ts';

/** The AbortSignals of requests whose handlers asked for one. */
export interface ClientSignals {
  /** Aborted when the client leaves before its answer is whole, or by `cut`. */
  of(exchange: Exchange): AbortSignal;
  /** Aborts all: the process must stop now. */
  cut(): void;
}

export function openClientSignals(): ClientSignals {
  const live = new Set<AbortController>();
  return {
    of(exchange) {
      if (exchange.abort !== undefined) return exchange.abort.signal;
      const controller = new AbortController();
      exchange.abort = controller;
      if (isGone(exchange)) {
        controller.abort();
      } else {
        live.add(controller);
        exchange.response.once('close', () => {
          live.delete(controller);
          if (!exchange.response.writableFinished) controller.abort();
        });
      }
      return controller.signal;
    },
    cut() {
      for (const controller of live) controller.abort();
    },
  };
}
