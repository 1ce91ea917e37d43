const MOST_CHARACTERS = 128;

/** What a password is judged by besides itself. */
export interface PasswordContext {
  email: string;
  fullName: string;
  /** Code points. */
  minLength: number;
  /** Whether everybody tries it first; asked with the normalized text in lower case. */
  isCommon(text: string): boolean;
}

/** The form in which a password is judged and hashed: two keyboards may write one letter in two ways. */
export function normalizePassword(text: string): string {
  return text.normalize('NFC');
}

/** Every reason why this may not be a password, as sentences for its owner; [] = it may. Length counts code points. */
export function passwordFaults(password: string, context: PasswordContext): string[] {
  const text = normalizePassword(password);
  const length = [...text].length;
  const folded = text.toLowerCase();
  const faults: string[] = [];
  if (length < context.minLength) faults.push(`must have at least ${context.minLength} characters`);
  if (length > MOST_CHARACTERS) faults.push(`must have at most ${MOST_CHARACTERS} characters`);
  // Half a surrogate pair is no character: stored, it would be the same as any other half.
  if (/\p{Cc}/u.test(text) || !text.isWellFormed()) faults.push('must not contain control characters');
  if (context.isCommon(folded)) faults.push('must not be a commonly used password');
  if (emailForms(context.email).includes(folded)) faults.push('must not be the e-mail address or its first part');
  if (folded === nameOf(context.fullName)) faults.push('must not be the name');
  return faults;
}

function emailForms(email: string): string[] {
  const whole = normalizePassword(email).trim().toLowerCase();
  return [whole, whole.slice(0, Math.max(whole.lastIndexOf('@'), 0))].filter((form) => form !== '');
}

/** Undefined when there is no name to be equal to. */
function nameOf(fullName: string): string | undefined {
  const name = normalizePassword(fullName).trim().toLowerCase();
  return name === '' ? undefined : name;
}
