import { DAY } from '#shared/kernel/time.ts';

/** How a person who has found a vulnerability reaches the operator of an installation. */
export interface SecurityContact {
  /** The preferred one first: `mailto:`, `tel:` or https addresses. */
  contacts: readonly string[];
  /** Address of the operator's rules for reports; null without one. */
  policy: string | null;
  /** Address under which the file is reached from outside; null if unknown. */
  canonical: string | null;
}

/** Time for which a fetched file may be trusted. RFC 9116 recommends less than a year. */
const VALID_MS = 180 * DAY;
const CONTACT = /^(mailto:[^\s@,]+@[^\s@,]+|tel:\+[\d-]{5,20}|https:\/\/[^\s,]+)$/;

/** Returns true for an address that a `Contact` may have. A second line in it would add a field. */
export function isSecurityContact(text: string): boolean {
  return CONTACT.test(text) && URL.canParse(text);
}

/** Returns the text of `/.well-known/security.txt` (RFC 9116) at `now`. It expires at a midnight, so that it changes once a day. */
export function securityTxt({ contacts, policy, canonical }: SecurityContact, now: number): string {
  const expires = new Date(Math.floor((now + VALID_MS) / DAY) * DAY).toISOString();
  const fields: readonly (readonly [name: string, value: string | null])[] = [
    ...contacts.map((contact) => ['Contact', contact] as const),
    ['Expires', expires],
    ['Preferred-Languages', 'vi, en'],
    ['Policy', policy],
    ['Canonical', canonical],
  ];
  return fields.flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}\n`])).join('');
}
