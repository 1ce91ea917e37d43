/** `$2a$`, `$2b$` or `$2y$` (PHP's name for `$2b$`), a cost, 22 letters of salt and 31 of hash. */
const FORM = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/;
const LETTERS = './ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const HASH_LETTERS = 31;

const LEAST_COST = 4;
/** A hash that somebody imports says how long every try at it takes: at 15 about two seconds, at 31 two days. */
const MOST_COST = 15;

/** The cost of a bcrypt hash that can be worked with; null when it is none, or would take too long. */
export function costOf(hash: string): number | null {
  const cost = Number(FORM.exec(hash)?.[1] ?? 0);
  return cost >= LEAST_COST && cost <= MOST_COST ? cost : null;
}

/** The same hash under the one name that the library knows. */
export function underKnownName(hash: string): string {
  return hash.replace(/^\$2y\$/, '$2b$');
}

/** A hash of this cost that nobody knows a password of: to compare with it takes what a real one takes. */
export function hashOfNobody(salt: string, randomBytes: Uint8Array): string {
  const letters = Array.from({ length: HASH_LETTERS }, (_, index) => LETTERS[(randomBytes[index] ?? 0) & 63]);
  return salt + letters.join('');
}
