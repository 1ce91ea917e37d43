// How the batches of a job come and go while several are worked on at once: read ahead in groups, and written in groups.

/**
 * Reads parts in groups, each while those of the one before are worked on; no more than two groups are held. Places are taken in
 * their order, from 0. If no caller takes a group that was read ahead, its failure is dropped.
 */
export function readAhead<Key, Part>(
  keys: readonly Key[],
  groupSize: number,
  read: (keys: readonly Key[]) => Promise<readonly Part[]>,
): (place: number) => Promise<Part> {
  const reading = new Map<number, Promise<readonly Part[]>>();

  function begin(group: number): Promise<readonly Part[]> {
    const parts = reading.get(group) ?? read(keys.slice(group * groupSize, (group + 1) * groupSize));
    parts.catch(() => undefined);
    reading.set(group, parts);
    return parts;
  }
  return async (place) => {
    const group = Math.floor(place / groupSize);
    const parts = begin(group);
    reading.delete(group - 1);
    if ((group + 1) * groupSize < keys.length) void begin(group + 1);
    return (await parts)[place % groupSize] as Part;
  };
}

/** Writes parts that are finished at about the same time as one group, and one group after another. */
interface GroupWriter<Part> {
  /** Resolves when the part is written; rejects as its group does. */
  write(part: Part): Promise<void>;
}

/** `writeGroup` is never called twice at a time, nor after it has failed: every later part is refused with the same error. */
export function openGroupWriter<Part>(writeGroup: (parts: readonly Part[]) => Promise<void>): GroupWriter<Part> {
  let next: { parts: Part[]; written: Promise<void> } | null = null;
  let before: Promise<void> = Promise.resolve();

  function openGroup() {
    const parts: Part[] = [];
    const written = before
      // Those who finish in the same turn come along.
      .then(() => new Promise((resolve) => setImmediate(resolve)))
      .then(() => {
        next = null;
        return writeGroup(parts);
      });
    before = written;
    // Whoever wrote hears of it; the chain itself is nobody's.
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
