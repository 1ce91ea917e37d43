import { costOf } from '#infra/passwords/hasher.ts';
import { ROLES } from '#shared/auth/account.ts';
import { type Registration, readRegistration, registrationFaults } from '#shared/auth/registration.ts';
import { isRejection } from '#shared/kernel/errors.ts';

/** One account to import, normalized. */
export interface ImportedLine {
  registration: Registration;
  legacyId: string | null;
  passwordHash: string;
}

const REQUIRED = ['email', 'fullName', 'role', 'passwordHash'] as const;
const OPTIONAL = ['phone', 'legacyId'] as const;
const LEGACY_ID = /^[^\s\p{Cc}]{1,128}$/u;

/** Reads a line of an import, or gives every fault of it. No fault quotes the line: it holds a hash. */
export function readImportLine(text: string): ImportedLine | { faults: string[] } {
  const line = parseObject(text);
  if (line === null) return { faults: ['is not a JSON object'] };
  const faults = shapeFaults(line);
  for (const { path, message } of registrationFaults(line, [], ROLES)) faults.push(`${path.slice(1)} ${message}`);
  const given = (name: string) => (typeof line[name] === 'string' ? line[name] : undefined);
  const legacyId = given('legacyId') ?? null;
  if (legacyId !== null && !LEGACY_ID.test(legacyId)) faults.push('legacyId must have 1-128 characters without blanks');
  const passwordHash = given('passwordHash') ?? '';
  if ('passwordHash' in line && costOf(passwordHash) === null) {
    faults.push('passwordHash must be a bcrypt hash ($2a$, $2b$ or $2y$) of cost 4-15');
  }
  if (faults.length > 0) return { faults };
  const [email, fullName] = [given('email') ?? '', given('fullName') ?? ''];
  const registration = readRegistration(
    { email, fullName, role: given('role') ?? null, phone: given('phone') ?? null },
    ROLES,
  );
  if (isRejection(registration)) throw new Error('a registration without fault was refused');
  return { registration, legacyId, passwordHash };
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : null;
  } catch {
    return null;
  }
}

function shapeFaults(line: Record<string, unknown>): string[] {
  const faults: string[] = [];
  const known: readonly string[] = [...REQUIRED, ...OPTIONAL];
  for (const name of REQUIRED) if (!(name in line)) faults.push(`${name} is missing`);
  for (const [name, value] of Object.entries(line)) {
    const mayBeNull = (OPTIONAL as readonly string[]).includes(name);
    if (!known.includes(name)) faults.push(`${JSON.stringify(name.slice(0, 40))} is not a field of an account`);
    else if (name !== 'passwordHash' && typeof value !== 'string' && !(mayBeNull && value === null))
      faults.push(`${name} must be text`);
  }
  return faults;
}
