import { formOf, type Identities, VOLATILE_NUMBERS } from './forms.ts';

/** Last item of a list that a page shortens, or value of the member "…" of an object: "… 7 more". */
const MORE = /^… (\d+) more$/;
const REST = '…';

type Members = Readonly<Record<string, unknown>>;

/**
 * Returns how the real value differs from the one that a page shows, one line each. Ids, times and other volatile values count as equal
 * if they have the same form. The order of members does not count.
 */
export function differences(shown: unknown, real: unknown, identities: Identities, at = ''): string[] {
  const place = at === '' ? 'the body' : at;
  if (typeOf(shown) !== typeOf(real)) return [`${place} is ${brief(real)} instead of ${brief(shown)}`];
  if (Array.isArray(shown) && Array.isArray(real)) return listDifferences(shown, real, identities, at);
  if (isObject(shown) && isObject(real)) return memberDifferences(shown, real, identities, at);
  if (typeof shown === 'string' && typeof real === 'string') {
    return sameText(shown, real, identities) ? [] : [`${place} is ${brief(real)} instead of ${brief(shown)}`];
  }
  if (Object.is(shown, real) || isVolatileNumber(at, real)) return [];
  return [`${place} is ${brief(real)} instead of ${brief(shown)}`];
}

/**
 * Returns the real value as a page shows it: with the page's ids, times and tokens where their forms fit, and shortened where the page
 * shortens it.
 */
export function recorded(shown: unknown, real: unknown, identities: Identities, at = ''): unknown {
  if (Array.isArray(real)) {
    const list = Array.isArray(shown) ? shown : [];
    const { kept, isCut } = keptItems(list);
    const items = (isCut ? real.slice(0, kept.length) : real).map((item, index) =>
      recorded(kept[index], item, identities, `${at}/${index}`),
    );
    const rest = real.length - items.length;
    return rest === 0 ? items : [...items, `… ${rest} more`];
  }
  if (isObject(real)) {
    const before = isObject(shown) ? shown : {};
    const names = Object.keys(real).filter((name) => !Object.hasOwn(before, REST) || Object.hasOwn(before, name));
    const members = names.map((name) => [name, recorded(before[name], real[name], identities, `${at}/${name}`)]);
    const rest = Object.keys(real).length - names.length;
    return Object.fromEntries(rest === 0 ? members : [...members, [REST, `… ${rest} more`]]);
  }
  if (typeof real === 'string') {
    return typeof shown === 'string' && sameText(shown, real, identities) ? shown : identities.shown(real);
  }
  return typeof shown === typeof real && isVolatileNumber(at, real) ? shown : real;
}

/** Returns a value without the marks at the end of shortened lists: `"… 7 more"`. */
export function withoutMarks(value: unknown): unknown {
  if (Array.isArray(value)) return keptItems(value).kept.map(withoutMarks);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withoutMarks(member)]));
}

/**
 * Returns the value that a page shows, as a pattern for a whole reply: no object leaves members out. A list is shortened only if the page
 * shows some of its items.
 */
export function wholeMembers(shown: unknown): unknown {
  if (Array.isArray(shown)) return keptItems(shown).kept.length === 0 ? [] : shown.map(wholeMembers);
  if (!isObject(shown)) return shown;
  const members = Object.entries(shown).filter(([name]) => name !== REST);
  return Object.fromEntries(members.map(([name, member]) => [name, wholeMembers(member)]));
}

/** Returns the value with the parts of `before` in place of those that the page leaves out, because they may depend on the run. */
export function withLeftOut(shown: unknown, before: unknown, now: unknown): unknown {
  if (Array.isArray(shown) && Array.isArray(before) && Array.isArray(now)) {
    const { kept, isCut } = keptItems(shown);
    if (isCut && kept.length === 0) return before;
    return now.map((item, index) => withLeftOut(kept[index], before[index], item));
  }
  if (!isObject(shown) || !isObject(before) || !isObject(now)) return now;
  const members = Object.entries(now).map(([name, member]) => {
    const isLeftOut = Object.hasOwn(shown, REST) && !Object.hasOwn(shown, name) && Object.hasOwn(before, name);
    return [name, isLeftOut ? before[name] : withLeftOut(shown[name], before[name], member)];
  });
  return Object.fromEntries(members);
}

/** Returns whether two texts differ in volatile values only. */
export function sameText(shown: string, real: string, identities: Identities): boolean {
  const [a, b] = [formOf(shown), formOf(real)];
  if (a.outline !== b.outline) return false;
  return a.values.every(({ form, value }, index) => identities.pair(form, value, b.values[index]?.value ?? ''));
}

function listDifferences(shown: readonly unknown[], real: readonly unknown[], identities: Identities, at: string) {
  const { kept, rest } = keptItems(shown);
  const found = kept
    .slice(0, real.length)
    .flatMap((item, index) => differences(item, real[index], identities, `${at}/${index}`));
  const count = kept.length + rest;
  return real.length === count ? found : [...found, `${at || '/'} has ${real.length} items instead of ${count}`];
}

function memberDifferences(shown: Members, real: Members, identities: Identities, at: string): string[] {
  const { [REST]: more, ...kept } = shown;
  const further = Object.keys(real).filter((name) => !Object.hasOwn(kept, name));
  const allowed = more === undefined ? 0 : restOf(more);
  return [
    ...Object.keys(kept).flatMap((name) =>
      Object.hasOwn(real, name)
        ? differences(kept[name], real[name], identities, `${at}/${name}`)
        : [`${at}/${name} is missing`],
    ),
    ...(more === undefined
      ? further.map((name) => `${at}/${name} is not shown: ${brief(real[name])}`)
      : further.length === allowed
        ? []
        : [`${at || '/'} has ${further.length} further members instead of ${allowed}`]),
  ];
}

function keptItems(shown: readonly unknown[]) {
  const rest = restOf(shown.at(-1));
  return { kept: rest === 0 ? shown : shown.slice(0, -1), rest, isCut: rest > 0 };
}

function restOf(marker: unknown): number {
  return typeof marker === 'string' ? Number(MORE.exec(marker)?.[1] ?? 0) : 0;
}

function isVolatileNumber(at: string, real: unknown): boolean {
  return typeof real === 'number' && VOLATILE_NUMBERS.has(at.slice(at.lastIndexOf('/') + 1));
}

function isObject(value: unknown): value is Members {
  return typeOf(value) === 'object';
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'list' : typeof value;
}

function brief(value: unknown): string {
  const text = JSON.stringify(value) ?? 'missing';
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
