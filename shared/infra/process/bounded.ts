/** What `work` gives; rejects with what `late` makes once `ms` are over. A result that comes later is dropped, a rejection too. */
export async function bounded<Result>(work: Promise<Result>, ms: number, late: () => Error): Promise<Result> {
  const over = Promise.withResolvers<never>();
  const timer = setTimeout(() => over.reject(late()), ms);
  try {
    return await Promise.race([work, over.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Whether `work` ended within `ms`. @throws what it rejects with in that time */
export async function endsWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const over = Promise.withResolvers<false>();
  const timer = setTimeout(over.resolve, ms, false);
  try {
    return await Promise.race([work.then(() => true), over.promise]);
  } finally {
    clearTimeout(timer);
  }
}
