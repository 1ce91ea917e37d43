/** Writes what several finish at about the same time together, and one group after another. */
export interface GroupWriter<Part> {
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
