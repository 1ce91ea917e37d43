import { parsePhoneNumberFromString } from 'libphonenumber-js/min';
import { type FaultDetail, isRejection, type Rejection, unknownTo } from '#shared/kernel/errors.ts';
import { composed, hasMarkRun, hidesText, trimUnseen, withoutFormat } from '#shared/kernel/text.ts';
import { type Account, ROLES, type Role, type StoredPassword } from './account.ts';

/** The fields of a registration, without its password. */
export interface Registration {
  email: string;
  phone: string | null;
  fullName: string;
  role: Role;
}

/** Normalizes a registration that passed its schema, or rejects it with every fault at once. `roles`: the allowed roles. */
export function readRegistration(
  body: { email: string; fullName: string; phone?: string | null; role?: string | null },
  roles: Iterable<Role>,
): Registration | Rejection {
  const allowed = [...roles];
  const details: FaultDetail[] = [];
  const email = normalizeEmail(body.email);
  if (!isEmail(email)) details.push({ path: '/email', message: 'must be an e-mail address of at most 254 characters' });
  const typedName = composed(body.fullName).trim();
  const fullName = trimUnseen(typedName);
  if (hidesText(typedName) || !isName(fullName)) {
    details.push({
      path: '/fullName',
      message: `must be one line of 1-${MAX_NAME_CHARACTERS} characters, without control and format characters and with at most 30 combining marks in a row`,
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

/** Valid values in place of a required field that is missing or faulty, so that the other fields can still be checked. */
const STAND_IN = { email: 'an@school.vn', fullName: 'An' };

/**
 * Returns the faults that `readRegistration` finds in the text fields of a body that failed its schema. Fields with a `known` schema
 * fault are not read, because a text may be longer than its schema admits. The client thus receives every fault in one reply.
 */
export function registrationFaults(
  body: unknown,
  known: readonly FaultDetail[],
  roles: Iterable<Role>,
): readonly FaultDetail[] {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return [];
  const isFaulty = new Set(known.map(({ path }) => path));
  const sound = Object.entries(body).filter(([name, value]) => typeof value === 'string' && !isFaulty.has(`/${name}`));
  const texts = Object.fromEntries(sound);
  const read = readRegistration({ ...STAND_IN, ...texts }, roles);
  return isRejection(read) ? unknownTo(known, read.details ?? []) : [];
}

const MAX_NAME_CHARACTERS = 200;

function isName(text: string): boolean {
  return text !== '' && text.length <= MAX_NAME_CHARACTERS && text.isWellFormed() && !hasMarkRun(text);
}

/** Characters of the longest address that fits a mail server's path (RFC 5321, 4.5.3.1.3). */
const MAX_EMAIL_LENGTH = 254;
const MAX_LOCAL_PART_LENGTH = 64;

const ATOM = /^[a-z0-9!#$%&'*+/=?^_`{|}~-]+$/i;
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i;

/**
 * Returns the form under which an e-mail is stored, looked up and throttled. Only ASCII letters are lower-cased: Unicode's
 * rules would turn the Kelvin sign into `k` and so merge the addresses of two people.
 */
export function normalizeEmail(text: string): string {
  return text.trim().replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/**
 * Returns true if a normalized text is an acceptable e-mail: dotted atoms, one `@`, a domain of two or more labels. Only ASCII
 * is accepted, because similar letters of other scripts would make two accounts appear the same. An international domain must
 * be in its `xn--` form. Quoted local parts and address literals are refused although RFC 5321 allows them.
 */
export function isEmail(text: string): boolean {
  if (text.length > MAX_EMAIL_LENGTH) return false;
  const [local, domain, ...more] = text.split('@');
  if (local === undefined || domain === undefined || more.length > 0) return false;
  if (local.length > MAX_LOCAL_PART_LENGTH || !local.split('.').every((atom) => ATOM.test(atom))) return false;
  const labels = domain.split('.');
  // If the last label contains only digits, the domain is an IP address.
  return labels.length >= 2 && labels.every((label) => LABEL.test(label)) && !/^\d+$/.test(labels.at(-1) ?? '');
}

/** Country of a phone number without a country code. */
const HOME_COUNTRY = 'VN';
/** Characters before parsing; longer than any number with its blanks, dashes and brackets. */
const MAX_PHONE_LENGTH = 64;

/** `none`: missing or blank. `invalid`: not a phone number. A number with an extension is invalid: E.164 cannot express it. */
type TypedPhone = { kind: 'number'; phone: string } | { kind: 'none' } | { kind: 'invalid' };

/**
 * Returns the E.164 form of a typed phone number. A leading 0 means +84; a leading `+` or `00` begins
 * a country code, also in brackets. Copied numbers have invisible characters, and links begin with
 * `tel:`.
 */
export function normalizePhone(text: string | null | undefined): TypedPhone {
  const trimmed = trimUnseen(withoutFormat(text ?? ''))
    .replace(/^tel:\s*/i, '')
    .replace(/^\(\s*(\+\s*\d{1,3})\s*\)/, '$1 ');
  if (trimmed === '') return { kind: 'none' };
  if (trimmed.length > MAX_PHONE_LENGTH) return { kind: 'invalid' };
  const parsed = parsePhone(trimmed);
  // `isPossible` instead of `isValid`: new number ranges are assigned before the library's tables contain them.
  if (parsed === undefined || parsed.ext !== undefined || !parsed.isPossible()) return { kind: 'invalid' };
  // After a doubled trunk zero (000448980) the stored form would be read as another number, so one phone could have two accounts.
  if (parsePhone(parsed.number)?.number !== parsed.number) return { kind: 'invalid' };
  return { kind: 'number', phone: parsed.number };
}

function parsePhone(text: string) {
  return parsePhoneNumberFromString(text, { defaultCountry: HOME_COUNTRY, extract: false });
}

/** The organization of every account that is registered or imported. */
interface DefaultOrganization {
  id: string;
  name: string;
}

/** Fields of a new account that the caller supplies in addition to the registration. */
interface NewAccountFacts {
  id: string;
  accountCode: string;
  legacyId: string | null;
  password: StoredPassword;
  organization: DefaultOrganization;
  now: Date;
}

/** Returns an ACTIVE account that belongs to the default organization in the registered role. */
export function newAccount(registration: Registration, facts: NewAccountFacts): Account {
  const { id, accountCode, legacyId, password, organization, now } = facts;
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
