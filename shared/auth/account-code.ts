/** Crockford base32: without I, L, O and U, which are misheard, misread or make words. */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const LETTERS = 8;
const BYTES = (LETTERS * 5) / 8;

/** `ACC-` and 8 letters from the first 5 of the given random bytes. @throws RangeError when there are fewer. */
export function accountCodeOf(bytes: Uint8Array): string {
  if (bytes.length < BYTES) throw new RangeError(`An account code takes ${BYTES} random bytes`);
  const bits = bytes.subarray(0, BYTES).reduce((sum, byte) => sum * 256n + BigInt(byte), 0n as bigint);
  const letters = Array.from({ length: LETTERS }, (_, index) => {
    return ALPHABET[Number((bits >> BigInt(5 * (LETTERS - 1 - index))) & 31n)];
  });
  return `ACC-${letters.join('')}`;
}
