/**
 * Reads parts one by one in the order of their keys, some ahead of whoever takes them. Each is taken once; of those that
 * nobody takes any more nobody asks what became.
 */
export function readAhead<Key, Part>(
  keys: readonly Key[],
  ahead: number,
  read: (key: Key) => Promise<Part>,
): (place: number) => Promise<Part> {
  const reading = new Map<number, Promise<Part>>();
  let next = 0;

  function readUpTo(end: number): void {
    for (; next < Math.min(end, keys.length); next++) {
      const part = read(keys[next] as Key);
      part.catch(() => undefined);
      reading.set(next, part);
    }
  }
  return async (place) => {
    readUpTo(place + 1 + ahead);
    const part = reading.get(place);
    reading.delete(place);
    if (part === undefined) throw new Error(`part ${place} of ${keys.length} was taken already`);
    return part;
  };
}
