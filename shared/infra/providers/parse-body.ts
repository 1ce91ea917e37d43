/** Deeper than any answer of any wire, and shallow enough for whoever walks through it. */
const MOST_DEPTH = 200;

/** The JSON of a body; undefined when it is none, or nested so deep that reading it could end in a stack overflow. */
export function parseBody(text: string): unknown {
  try {
    const body: unknown = JSON.parse(text);
    return isDeep(body) ? undefined : body;
  } catch {
    return undefined;
  }
}

function isDeep(body: unknown): boolean {
  let level: unknown[] = [body];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MOST_DEPTH) return true;
    level = level.flatMap((value) => (typeof value === 'object' && value !== null ? Object.values(value) : []));
  }
  return false;
}
