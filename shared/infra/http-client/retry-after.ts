/**
 * The patience that an answer asks for (RFC 9110, section 10.2.3), in milliseconds from now; null when it asks for none
 * or cannot be read. A date is counted from the answer's own `Date`: both are of the sender's clock, and ours may be
 * minutes away from it.
 */
export function retryAfterMs(headers: Headers): number | null {
  const value = headers.get('retry-after');
  if (value === null) return null;
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1_000;
  const waitMs = Date.parse(value) - Date.parse(headers.get('date') ?? '');
  return Number.isNaN(waitMs) ? null : Math.max(0, waitMs);
}
