import type { LimitFunction } from 'p-limit';

/**
 * Does `work` when a slot is free. Whoever waits for one goes when it is told to, or after `waitMs`, and its turn passes
 * unused; work that has begun ends by itself, and only the signal lets its caller go before.
 * @throws what `work` does, the signal's reason, or what `late` gives
 */
export async function inTurn<T>(
  slots: LimitFunction,
  { signal, waitMs, late }: { signal: AbortSignal; waitMs: number; late(): Error },
  work: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const gone = Promise.withResolvers<never>();
  let isGone = false;
  const go = (reason: unknown) => {
    isGone = true;
    gone.reject(reason);
  };
  const abort = () => go(signal.reason);
  const timer = setTimeout(() => go(late()), Math.max(0, waitMs));
  signal.addEventListener('abort', abort, { once: true });
  const turn = slots(() => {
    clearTimeout(timer);
    return isGone ? gone.promise : work();
  });
  try {
    return await Promise.race([turn, gone.promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
    turn.catch(() => undefined);
  }
}
