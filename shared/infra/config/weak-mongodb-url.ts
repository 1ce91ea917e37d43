/** What each option of a connection string must be, where it is given at all. */
const WANTED: Readonly<Record<string, string>> = {
  // An acknowledged submit that a failover may roll back is worse than a refused start.
  w: 'majority',
  journal: 'true',
  j: 'true',
  safe: 'true',
  // A secondary may not know yet what was just written: a grade would be decided on answers of a moment ago.
  readpreference: 'primary',
  readconcernlevel: 'majority',
};
/** They choose among secondaries. */
const REFUSED = ['readpreferencetags', 'maxstalenessseconds'];

/**
 * What in a MongoDB connection string weakens `w: majority, journal: true` or majority reads of the primary, as a phrase
 * without the string itself (it may hold a password); undefined when nothing does.
 */
export function weaknessOf(url: string): string | undefined {
  if (!url.includes('?')) return undefined;
  for (const pair of url.slice(url.indexOf('?') + 1).split(/[&;]/)) {
    const [name = '', value = ''] = pair.split('=', 2).map((part) => decode(part).trim());
    const option = name.toLowerCase();
    const wanted = WANTED[option];
    if (wanted !== undefined && value.toLowerCase() !== wanted) return `${name} is not ${wanted}`;
    if (REFUSED.includes(option)) return `${name} is set`;
  }
  return undefined;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
