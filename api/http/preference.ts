/** Header of a reply that has honoured `return=minimal` (RFC 7240, 3). */
export const MINIMAL_APPLIED = { 'Preference-Applied': 'return=minimal' };

/** One preference: a token, and perhaps a value, quoted or not. Parameters behind it mean nothing here (RFC 7240, 2). */
const PREFERENCE = /^\s*([\w!#$%&'*+.^`|~-]+)\s*(?:=\s*"?([^";]*)"?)?\s*(?:;.*)?$/;

/**
 * Returns true if a `Prefer` header requests `return=minimal`. Of two preferences of one name the first counts, and an unknown or
 * malformed one is ignored, as RFC 7240 demands: a preference never fails a request.
 */
export function isMinimalPreferred(header: string | undefined): boolean {
  for (const part of (header ?? '').split(',')) {
    const [, name = '', value = ''] = PREFERENCE.exec(part) ?? [];
    if (name.toLowerCase() === 'return') return value.trim().toLowerCase() === 'minimal';
  }
  return false;
}
