import { hash, timingSafeEqual } from 'node:crypto';

/** A secret, or all values of it that are accepted during its rotation, the current one first. */
export type Secrets = string | readonly string[];

/**
 * Returns a function that compares a text with each accepted secret. Both sides are hashed first and every secret is compared, so
 * the time of a comparison reveals neither the first difference, nor the lengths, nor which secret matched. Returns undefined if
 * no secret is configured or all are empty.
 */
export function secretCheck(secrets: Secrets | undefined): ((given: string) => boolean) | undefined {
  const values = typeof secrets === 'string' ? [secrets] : (secrets ?? []);
  const expected = values.filter((value) => value !== '').map(digest);
  if (expected.length === 0) return undefined;
  return (given) => {
    const actual = digest(given);
    let matches = false;
    for (const one of expected) matches = timingSafeEqual(actual, one) || matches;
    return matches;
  };
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
