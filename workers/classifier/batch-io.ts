// Batch input and output of a job while several batches are in progress: read ahead in groups, and written in groups.

/**
 * Reads parts in groups and prefetches one group ahead; at most two groups are held. Call the returned function with 0, 1, 2, … in
 * order. An error in a prefetched group is ignored if no caller takes a part of that group.
 */
export function readAhead<Key, Part>(
  keys: readonly Key[],
  groupSize: number,
  read: (keys: readonly Key[]) => Promise<readonly Part[]>,
): (position: number) => Promise<Part> {
  const reading = new Map<number, Promise<readonly Part[]>>();

  function begin(group: number): Promise<readonly Part[]> {
    const parts = reading.get(group) ?? read(keys.slice(group * groupSize, (group + 1) * groupSize));
    parts.catch(() => undefined);
    reading.set(group, parts);
    return parts;
  }
  return async (position) => {
    const group = Math.floor(position / groupSize);
    const parts = begin(group);
    reading.delete(group - 1);
    if ((group + 1) * groupSize < keys.length) void begin(group + 1);
    return (await parts)[position % groupSize] as Part;
  };
}

/** Collects parts that finish at about the same time into a group, and writes one group after another. */
interface GroupWriter<Part> {
  /** Accepts a part. Resolves once at most `limit` parts are unwritten; rejects after a failed write. */
  write(part: Part): Promise<void>;
  /** Resolves when all accepted parts are written; rejects after a failed write. */
  flush(): Promise<void>;
}

/** Time for which a group waits for further parts after its first one (ms), so that one transaction stores several. */
const GATHER_MS = 20;

/**
 * Opens a group writer. It calls `writeGroup` once at a time: GATHER_MS after the first part of a group, or earlier if `limit` parts
 * wait or a caller flushes. After a failed call it writes nothing more: it calls `failed` at once, and rejects later parts with the
 * same error.
 */
export function openGroupWriter<Part>(
  writeGroup: (parts: readonly Part[]) => Promise<void>,
  { limit, failed }: { limit: number; failed(error: unknown): void },
): GroupWriter<Part> {
  let next: { parts: Part[]; begin(): void } | null = null;
  let unwritten = 0;
  /** Promises of the groups that are not written yet, oldest first. A group whose write failed stays the oldest. */
  const groups: Promise<void>[] = [];
  let newest: Promise<void> = Promise.resolve();
  let failure: { error: unknown } | null = null;

  function openGroup() {
    const parts: Part[] = [];
    const gathered = Promise.withResolvers<void>();
    const timer = setTimeout(gathered.resolve, GATHER_MS);
    const before = newest;
    newest = gathered.promise.then(async () => {
      clearTimeout(timer);
      await before;
      next = null;
      await writeGroup(parts).catch((error: unknown) => {
        failure = { error };
        failed(error);
        throw error;
      });
      unwritten -= parts.length;
      void groups.shift();
    });
    groups.push(newest);
    // `write` and `flush` reject for their callers; this handler only prevents an unhandled rejection on the chain.
    newest.catch(() => undefined);
    return { parts, begin: gathered.resolve };
  }
  return {
    async write(part) {
      if (failure !== null) throw failure.error;
      next ??= openGroup();
      next.parts.push(part);
      unwritten += 1;
      if (next.parts.length >= limit) next.begin();
      while (unwritten > limit) await groups[0];
    },
    flush() {
      next?.begin();
      return newest;
    },
  };
}
