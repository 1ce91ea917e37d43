/** The longest address that fits a mail server's path (RFC 5321, 4.5.3.1.3). */
const LONGEST_EMAIL = 254;
const LONGEST_LOCAL_PART = 64;

const ATOM = /^[a-z0-9!#$%&'*+/=?^_`{|}~-]+$/i;
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i;

/**
 * The one spelling under which an e-mail is stored, looked up and throttled. Only ASCII letters are lower-cased: Unicode's
 * own rules would make a `k` of the Kelvin sign, and two people's addresses one.
 */
export function normalizeEmail(text: string): string {
  return text.trim().replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/**
 * Whether a normalized text is an address that a school's mail can have: dotted atoms, one `@`, a domain of two labels or
 * more. ASCII only, since look-alike letters would let two accounts look the same; an international domain is given in its
 * `xn--` form. Quoted local parts and address literals are valid mail and refused all the same.
 */
export function isEmail(text: string): boolean {
  if (text.length > LONGEST_EMAIL) return false;
  const [local, domain, ...more] = text.split('@');
  if (local === undefined || domain === undefined || more.length > 0) return false;
  if (local.length > LONGEST_LOCAL_PART || !local.split('.').every((atom) => ATOM.test(atom))) return false;
  const labels = domain.split('.');
  // A last label of digits only is the end of an IP address.
  return labels.length >= 2 && labels.every((label) => LABEL.test(label)) && !/^\d+$/.test(labels.at(-1) ?? '');
}
