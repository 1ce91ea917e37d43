import { composed, hasMarkRun, MARK_RUN_FAULT } from '#shared/kernel/text.ts';
import { isDateAlone, isOneCharacter, isRun } from './predictable-password.ts';

/**
 * Code points of a password in a request; the schemas have the same limit. A new password is shorter, but an imported account may have a
 * longer one.
 */
export const MAX_SENT_CHARACTERS = 1_024;

const MAX_CHARACTERS = 128;

/** Account data and settings that a password is checked against. */
export interface PasswordContext {
  email: string;
  fullName: string;
  /** Code points. */
  minLength: number;
  /** Returns true if the password is commonly used. `text` is the normalized password in lower case. */
  isCommon(text: string): boolean;
}

/**
 * Returns every fault of a password, as texts for its owner; [] if it is acceptable. Its NFC form is checked and hashed, because keyboards
 * may encode the same letter in different ways. Length is counted in code points.
 */
export function passwordFaults(password: string, context: PasswordContext): string[] {
  const text = composed(password);
  const length = [...text].length;
  const folded = text.toLowerCase();
  const faults: string[] = [];
  if (length < context.minLength) faults.push(`must have at least ${context.minLength} characters`);
  if (length > MAX_CHARACTERS) faults.push(`must have at most ${MAX_CHARACTERS} characters`);
  // Half a surrogate pair is not a character. UTF-8 encodes every such half alike, so different passwords would be equal.
  if (hasMarkRun(text)) faults.push(MARK_RUN_FAULT);
  if (/\p{Cc}/u.test(text) || !text.isWellFormed()) faults.push('must not contain control characters');
  if (context.isCommon(folded)) faults.push('must not be a commonly used password');
  if (isDateAlone(text)) faults.push('must not be a date alone');
  if (isOneCharacter(folded)) faults.push('must not be one repeated character');
  if (isRun(folded)) faults.push('must not be a run of characters, such as 12345678 or abcdefgh');
  if (emailForms(context.email).includes(folded)) faults.push('must not be the e-mail address or its first part');
  if (folded === nameOf(context.fullName)) faults.push('must not be the name');
  return faults;
}

function emailForms(email: string): string[] {
  const whole = composed(email).trim().toLowerCase();
  return [whole, whole.slice(0, Math.max(whole.lastIndexOf('@'), 0))].filter((form) => form !== '');
}

/** Returns the name in the form of a folded password, or undefined if the name is blank. */
function nameOf(fullName: string): string | undefined {
  const name = composed(fullName).trim().toLowerCase();
  return name === '' ? undefined : name;
}
