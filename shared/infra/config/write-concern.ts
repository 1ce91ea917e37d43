/**
 * What weakens `w: majority, journal: true` in a MongoDB connection string, as a phrase without the string itself (it may hold a
 * password), or undefined. An acknowledged submit that a failover may roll back is worse than a refused start.
 */
export function weakWriteConcern(url: string): string | undefined {
  const query = url.slice(url.indexOf('?') + 1);
  if (!url.includes('?')) return undefined;
  for (const pair of query.split(/[&;]/)) {
    const [name = '', value = ''] = pair.split('=', 2).map((part) => decode(part).trim().toLowerCase());
    if (name === 'w' && value !== 'majority') return 'w is not majority';
    if ((name === 'journal' || name === 'j') && value !== 'true') return `${name} is not true`;
    if (name === 'safe' && value !== 'true') return 'safe is not true';
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
