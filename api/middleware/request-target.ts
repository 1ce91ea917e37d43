const ABSOLUTE = /^https?:\/\/[^/?#]*/i;

/**
 * Splits a request target into path and raw query. The absolute form (`GET http://host/path`) must be accepted
 * (RFC 9112, section 3.2.2); its authority is ignored. Nothing is decoded or normalised here.
 */
export function splitTarget(target: string): { path: string; query: string } {
  let origin = target;
  if (target.charCodeAt(0) !== 0x2f) {
    origin = target.replace(ABSOLUTE, '');
    if (origin === '' || origin.startsWith('?')) origin = `/${origin}`;
  }
  const mark = origin.indexOf('?');
  if (mark === -1) return { path: origin, query: '' };
  return { path: origin.slice(0, mark), query: origin.slice(mark + 1) };
}
