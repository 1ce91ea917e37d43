/** Ids that a path may hold. */
const ID = /^[A-Za-z0-9._:-]{1,128}$/;

/**
 * Returns the address of a request. `given` has the parameters of the path beside `query`, whose absent members are left out.
 * @throws TypeError if a parameter of the path is no id, because another one would name another route
 */
export function urlOf(baseUrl: string, path: string, given: object): string {
  const values = given as Readonly<Record<string, unknown>>;
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    // A URL drops the segments "." and "..", also in their encoded forms.
    if (typeof value !== 'string' || !ID.test(value) || value === '.' || value === '..') {
      throw new TypeError(`\`${name}\` is not an id: ${JSON.stringify(value)}`);
    }
    return encodeURIComponent(value);
  });
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values.query ?? {})) {
    if (value !== undefined && value !== null) query.set(name, String(value));
  }
  const search = query.toString();
  return `${baseUrl.replace(/\/+$/, '')}${filled}${search === '' ? '' : `?${search}`}`;
}
