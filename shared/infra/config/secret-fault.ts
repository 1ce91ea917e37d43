import { WELL_KNOWN } from './variable.ts';

/** HS256 takes a key as long as its hash (RFC 7518, 3.2), and a derived key knows no more than what it came from. */
const FEWEST_BYTES = 32;

/** What a secret that keys are derived from should have been, or undefined when it is that. Never quotes it. */
export function secretFault(secret: string, production: boolean): string | undefined {
  // The comma parts the earlier secrets from each other, where this one will stand some day.
  if (!/^[!-~]([ -~]*[!-~])?$/.test(secret) || secret.includes(',')) {
    const wanted = 'printable ASCII without a comma and without white space at either end';
    return production ? `at least ${FEWEST_BYTES} bytes of ${wanted}` : wanted;
  }
  if (production && WELL_KNOWN.has(secret)) return 'a value of its own, not the development default';
  if (production && Buffer.byteLength(secret) < FEWEST_BYTES) return `at least ${FEWEST_BYTES} bytes`;
  return undefined;
}
