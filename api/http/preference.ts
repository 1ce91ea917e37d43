/** Header of a reply that has honoured `return=minimal` (RFC 7240, 3). */
export const MINIMAL_APPLIED = { 'Preference-Applied': 'return=minimal' };

const MINIMAL: ReadonlySet<string> = new Set(['minimal', '"minimal"']);

/**
 * Returns true if a `Prefer` header requests `return=minimal`. Of two preferences of one name the first counts, and an unknown or
 * malformed one is ignored, as RFC 7240 demands: a preference never fails a request. Parameters behind one mean nothing here. The parts
 * are split by hand, because one pattern for all of them takes the square of a run of spaces.
 */
export function isMinimalPreferred(header: string | undefined): boolean {
  for (const part of (header ?? '').split(',')) {
    const [preference = ''] = part.split(';');
    const [name = '', value = ''] = preference.split('=');
    if (name.trim().toLowerCase() === 'return') return MINIMAL.has(value.trim().toLowerCase());
  }
  return false;
}
