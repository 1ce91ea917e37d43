/** Where a value stands that stands earlier as well. */
export function repeatedAt(values: readonly unknown[]): number[] {
  const seen = new Set<unknown>();
  return values.flatMap((value, index) => {
    const isRepeated = seen.has(value);
    seen.add(value);
    return isRepeated ? [index] : [];
  });
}
