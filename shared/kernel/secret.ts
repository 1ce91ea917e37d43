import { hash, timingSafeEqual } from 'node:crypto';

/**
 * Returns a function that compares a text with the configured secret. Both sides are hashed first, so the time of a comparison
 * reveals neither the first difference nor the lengths. Returns undefined if the secret is not configured or empty.
 */
export function secretCheck(secret: string | undefined): ((given: string) => boolean) | undefined {
  if (secret === undefined || secret === '') return undefined;
  const expected = digest(secret);
  return (given) => timingSafeEqual(digest(given), expected);
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
