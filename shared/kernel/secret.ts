import { hash, timingSafeEqual } from 'node:crypto';

/**
 * A comparison with a configured secret whose time does not depend on where the texts differ, nor on their
 * lengths: both sides are hashed first. Undefined when no secret is configured; an empty secret is none.
 */
export function secretCheck(secret: string | undefined): ((given: string) => boolean) | undefined {
  if (secret === undefined || secret === '') return undefined;
  const expected = digest(secret);
  return (given) => timingSafeEqual(digest(given), expected);
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
