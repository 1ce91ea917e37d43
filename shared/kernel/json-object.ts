/** A member of a JSON object that may be absent or null under its schema. */
export type Optional<T> = T | null | undefined;

/** Returns true if parsed JSON is an object and not an array. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns a JSON object as it is, and an empty object for any other value. */
export function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return isJsonObject(value) ? value : {};
}
