import { parsePhoneNumberFromString } from 'libphonenumber-js/min';

/** Where a number without a country code is at home. */
const HOME = 'VN';
/** Longer than any number with its blanks, dashes and brackets. */
const LONGEST_PHONE = 64;

/**
 * The E.164 form of what a person typed: a leading 0 is +84, `+` or `00` begins a country code. Nothing or blank is no phone;
 * null when the text is not a phone number, which includes one with an extension: nobody is reached by it alone.
 */
export function normalizePhone(text: string | null | undefined): { phone: string | null } | null {
  const trimmed = (text ?? '').trim();
  if (trimmed === '') return { phone: null };
  if (trimmed.length > LONGEST_PHONE) return null;
  const parsed = parsePhoneNumberFromString(trimmed, { defaultCountry: HOME, extract: false });
  // Possible, not valid: ranges are given out faster than the tables of a library are updated.
  if (parsed === undefined || parsed.ext !== undefined || !parsed.isPossible()) return null;
  return { phone: parsed.number };
}
