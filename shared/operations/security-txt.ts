import { DAY } from '#shared/kernel/time.ts';

/** Time for which a fetched file may be trusted. RFC 9116 recommends less than a year. */
const VALID_MS = 180 * DAY;
const CONTACT = /^(mailto:[^\s@,]+@[^\s@,]+|tel:\+[\d-]{5,20}|https:\/\/[^\s,]+)$/;

/** Returns true for an address that a `Contact` may have. A second line in it would add a field. */
export function isSecurityContact(text: string): boolean {
  return CONTACT.test(text) && URL.canParse(text);
}

/**
 * Returns the text of `/.well-known/security.txt` (RFC 9116) at `now`. It expires at a midnight, so that it changes once a day. `contacts`:
 * addresses of the operator, the preferred one first.
 */
export function securityTxt(contacts: readonly string[], now: number): string {
  const expires = new Date(Math.floor((now + VALID_MS) / DAY) * DAY).toISOString();
  const fields = [...contacts.map((contact) => `Contact: ${contact}`), `Expires: ${expires}`];
  return [...fields, 'Preferred-Languages: vi, en', ''].join('\n');
}
