/**
 * Reads parts in groups, each while those of the one before are worked on; no more than two groups are held. Places are taken in
 * their order, from 0. Of a group that nobody comes to any more nobody asks what became.
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
