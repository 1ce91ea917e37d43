import { type FaultDetail, isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { ROLES, type Role } from './account.ts';
import { isEmail, normalizeEmail } from './email.ts';
import { normalizePhone } from './phone.ts';

const MOST_NAME_CHARACTERS = 200;

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
  if (phone === null) details.push({ path: '/phone', message: 'must be a phone number' });
  const role = ROLES.find((known) => known === (body.role ?? 'STUDENT'));
  if (role === undefined || !allowed.includes(role)) {
    details.push({ path: '/role', message: `must be one of ${allowed.join(', ')}` });
  }
  if (details.length > 0 || phone === null || role === undefined) return { rejected: 'VALIDATION_FAILED', details };
  return { email, fullName, phone: phone.phone, role };
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
  const told = new Set(known.map(({ path }) => path));
  return isRejection(read) ? (read.details ?? []).filter(({ path }) => !told.has(path)) : [];
}

function isName(text: string): boolean {
  return text !== '' && text.length <= MOST_NAME_CHARACTERS && text.isWellFormed() && !/\p{Cc}/u.test(text);
}
