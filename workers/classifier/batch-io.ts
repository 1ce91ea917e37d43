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
  /** Resolves when the part's group is written; rejects if that write fails. */
  write(part: Part): Promise<void>;
}

/** Opens a group writer. It calls `writeGroup` once at a time. After a failed call, later parts are rejected with its error. */
export function openGroupWriter<Part>(writeGroup: (parts: readonly Part[]) => Promise<void>): GroupWriter<Part> {
  let next: { parts: Part[]; written: Promise<void> } | null = null;
  let before: Promise<void> = Promise.resolve();

  function openGroup() {
    const parts: Part[] = [];
    const written = before
      // Wait one turn of the event loop, so that parts finished in the same turn join the group.
      .then(() => new Promise((resolve) => setImmediate(resolve)))
      .then(() => {
        next = null;
        return writeGroup(parts);
      });
    before = written;
    // `write` rejects for its caller; this handler only prevents an unhandled rejection on the chain.
    written.catch(() => undefined);
    return { parts, written };
  }
  return {
    write(part) {
      next ??= openGroup();
      next.parts.push(part);
      return next.written;
    },
  };
}
