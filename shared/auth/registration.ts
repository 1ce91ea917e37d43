import { parsePhoneNumberFromString } from 'libphonenumber-js/min';
import { type FaultDetail, isRejection, type Rejection, unknownTo } from '#shared/kernel/errors.ts';
import { type Account, ROLES, type Role, type StoredPassword } from './account.ts';

/** What a registration asks for, its password apart. */
export interface Registration {
  email: string;
  phone: string | null;
  fullName: string;
  role: Role;
}

/** Normalizes a registration whose shape has been validated; rejects with every fault at once. `roles`: whom anybody may be. */
export function readRegistration(
  body: { email: string; fullName: string; phone?: string | null; role?: string | null },
  roles: Iterable<Role>,
): Registration | Rejection {
  const allowed = [...roles];
  const details: FaultDetail[] = [];
  const email = normalizeEmail(body.email);
  if (!isEmail(email)) details.push({ path: '/email', message: 'must be an e-mail address of at most 254 characters' });
  const fullName = body.fullName.normalize('NFC').trim();
  if (!isName(fullName)) {
    details.push({
      path: '/fullName',
      message: `must have 1-${MOST_NAME_CHARACTERS} characters, none of them a control`,
    });
  }
  const phone = normalizePhone(body.phone);
  if (phone.kind === 'invalid') details.push({ path: '/phone', message: 'must be a phone number' });
  const role = ROLES.find((known) => known === (body.role ?? 'STUDENT'));
  if (role === undefined || !allowed.includes(role)) {
    details.push({ path: '/role', message: `must be one of ${allowed.join(', ')}` });
  }
  if (details.length > 0 || role === undefined) return { rejected: 'VALIDATION_FAILED', details };
  return { email, fullName, phone: phone.kind === 'number' ? phone.phone : null, role };
}

/** What is judged in the place of a field that is missing or no text, so that the faults of the others are told all the same. */
const STAND_IN = { email: 'an@school.vn', fullName: 'An' };

/**
 * What `readRegistration` has against the texts of a body that is refused already, beside the `known` faults of its shape: whoever
 * mends it is told of everything at once.
 */
export function registrationFaults(
  body: unknown,
  known: readonly FaultDetail[],
  roles: Iterable<Role>,
): readonly FaultDetail[] {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return [];
  const texts = Object.fromEntries(Object.entries(body).filter(([, value]) => typeof value === 'string'));
  const read = readRegistration({ ...STAND_IN, ...texts }, roles);
  return isRejection(read) ? unknownTo(known, read.details ?? []) : [];
}

const MOST_NAME_CHARACTERS = 200;

function isName(text: string): boolean {
  return text !== '' && text.length <= MOST_NAME_CHARACTERS && text.isWellFormed() && !/\p{Cc}/u.test(text);
}

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

/** Where a number without a country code is at home. */
const HOME_COUNTRY = 'VN';
/** Longer than any number with its blanks, dashes and brackets. */
const LONGEST_PHONE = 64;

/** `none`: nothing or blank. `invalid`: no phone number, which includes one with an extension: nobody is reached by it alone. */
type TypedPhone = { kind: 'number'; phone: string } | { kind: 'none' } | { kind: 'invalid' };

/** The E.164 form of what a person typed: a leading 0 is +84, `+` or `00` begins a country code. */
export function normalizePhone(text: string | null | undefined): TypedPhone {
  const trimmed = (text ?? '').trim();
  if (trimmed === '') return { kind: 'none' };
  if (trimmed.length > LONGEST_PHONE) return { kind: 'invalid' };
  const parsed = parsePhoneNumberFromString(trimmed, { defaultCountry: HOME_COUNTRY, extract: false });
  // Possible, not valid: ranges are given out faster than the tables of a library are updated.
  if (parsed === undefined || parsed.ext !== undefined || !parsed.isPossible()) return { kind: 'invalid' };
  return { kind: 'number', phone: parsed.number };
}

/** Where everybody belongs who registers or is imported. */
interface DefaultOrganization {
  id: string;
  name: string;
}

/** What only its maker knows of an account beside what was asked for. */
interface Making {
  id: string;
  accountCode: string;
  legacyId: string | null;
  password: StoredPassword;
  organization: DefaultOrganization;
  now: Date;
}

/** An ACTIVE account, a member of the default organization in the role that was asked for. */
export function newAccount(registration: Registration, making: Making): Account {
  const { id, accountCode, legacyId, password, organization, now } = making;
  const { email, phone, fullName, role } = registration;
  return {
    _id: id,
    accountCode,
    email,
    phone,
    hasPhone: phone !== null,
    legacyId,
    hasLegacyId: legacyId !== null,
    fullName,
    role,
    status: 'ACTIVE',
    memberships: [{ organizationId: organization.id, organizationName: organization.name, role, status: 'ACTIVE' }],
    defaultOrganizationId: organization.id,
    password,
    createdAt: now,
    updatedAt: now,
  };
}
