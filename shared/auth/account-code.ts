/** Crockford base32: without I, L, O and U, which are misheard, misread or make words. */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const LETTERS = 8;
/** Random bytes that a code takes. */
export const ACCOUNT_CODE_BYTES = (LETTERS * 5) / 8;

/** `ACC-` and 8 letters from the first ACCOUNT_CODE_BYTES of the given random bytes. @throws RangeError when there are fewer. */
export function accountCodeOf(bytes: Uint8Array): string {
  if (bytes.length < ACCOUNT_CODE_BYTES)
    throw new RangeError(`An account code takes ${ACCOUNT_CODE_BYTES} random bytes`);
  const bits = bytes.subarray(0, ACCOUNT_CODE_BYTES).reduce((sum, byte) => sum * 256n + BigInt(byte), 0n as bigint);
  const letters = Array.from({ length: LETTERS }, (_, index) => {
    return ALPHABET[Number((bits >> BigInt(5 * (LETTERS - 1 - index))) & 31n)];
  });
  return `ACC-${letters.join('')}`;
}
