/**
 * Bytes of request bodies that the process holds at once, read or announced. Without it a few hundred large
 * starts sent together would fill the heap although each is within its own cap.
 */
export interface BodyBudget {
  /** False when it would overrun; then nothing is taken. */
  take(bytes: number): boolean;
  give(bytes: number): void;
  taken(): number;
}

export function openBodyBudget(limit: number): BodyBudget {
  let taken = 0;
  return {
    take(bytes) {
      if (taken + bytes > limit) return false;
      taken += bytes;
      return true;
    },
    give(bytes) {
      taken -= bytes;
    },
    taken: () => taken,
  };
}
