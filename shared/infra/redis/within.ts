/** What `within` rejects with when the time is up. */
export class OutOfTime extends Error {
  constructor(ms: number) {
    super(`No answer within ${ms} ms`);
    this.name = 'OutOfTime';
  }
}

/**
 * Waits at most `ms` for `promise`, then rejects with OutOfTime; the late result is dropped, a late rejection too.
 *
 * When the timer fires, sockets get one more turn: if it was this process that was busy for longer than `ms`, the
 * answer already lies in the socket, and giving up the connection for that would punish Redis for our own pause.
 */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => setImmediate(() => late.reject(new OutOfTime(ms))), ms);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
