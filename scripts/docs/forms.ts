/** A part of a text that differs in each run, such as an id or a time. */
interface Form {
  readonly name: string;
  readonly pattern: string;
  /** True if equal values of a page stand for equal values of a run, and different ones for different ones. */
  readonly isIdentity?: boolean;
}

/** A page may cut long values with `…`, as in `eyJhbGciOi…`. */
const FORMS: readonly Form[] = [
  { name: 'token', pattern: String.raw`eyJ[\w-]*(?:…|\.[\w-]+\.[\w-]+)` },
  { name: 'uuid', pattern: '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}', isIdentity: true },
  { name: 'account', pattern: 'ACC-[0-9A-HJKMNP-TV-Z]{8}', isIdentity: true },
  { name: 'time', pattern: String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z` },
  { name: 'second', pattern: String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ` },
  { name: 'digest', pattern: '[0-9a-f]{32,}' },
  { name: 'secret', pattern: String.raw`whsec_[\w+/]+=*` },
  { name: 'signature', pattern: String.raw`v1,[\w+/]+=*` },
  { name: 'unix', pattern: String.raw`\b1[789]\d{8}\b` },
  { name: 'origin', pattern: String.raw`http://127\.0\.0\.1:\d+` },
];
const VOLATILE = new RegExp(FORMS.map(({ name, pattern }) => `(?<${name}>${pattern})`).join('|'), 'g');
const IDENTITIES = new Set(FORMS.filter(({ isIdentity }) => isIdentity).map(({ name }) => name));

/** Numbers that depend on the clock or the machine, by the name of their member. */
export const VOLATILE_NUMBERS: ReadonlySet<string> = new Set([
  'uptimeSeconds',
  'latencyMs',
  'durationSeconds',
  'remainingSeconds',
]);

/** A text as its fixed parts and, between them, its volatile values. */
export interface FormedText {
  /** The text with each volatile value as the name of its form. Texts with equal outlines differ in volatile values only. */
  readonly outline: string;
  readonly values: readonly { readonly form: string; readonly value: string }[];
}

/** Splits a text at its volatile values. */
export function formOf(text: string): FormedText {
  const values: { form: string; value: string }[] = [];
  const outline = text.replaceAll(VOLATILE, (...match) => {
    const groups = match.at(-1) as Record<string, string | undefined>;
    const [form = '', value = ''] = Object.entries(groups).find(([, found]) => found !== undefined) ?? [];
    values.push({ form, value });
    return `<${form}>`;
  });
  return { outline, values };
}

/** The ids of a page and those of a run that they stand for, one to one. */
export class Identities {
  readonly #realOf = new Map<string, string>();
  readonly #shownOf = new Map<string, string>();

  /** Returns a copy, for a comparison that may fail. */
  copy(): Identities {
    const copy = new Identities();
    for (const [shown, real] of this.#realOf) copy.pair('uuid', shown, real);
    return copy;
  }

  /** Returns whether `shown` may stand for `real`; from then on it does. Forms without identity always may. */
  pair(form: string, shown: string, real: string): boolean {
    if (!IDENTITIES.has(form)) return true;
    if (!this.#realOf.has(shown) && !this.#shownOf.has(real)) {
      this.#realOf.set(shown, real);
      this.#shownOf.set(real, shown);
    }
    return this.#realOf.get(shown) === real;
  }

  /** Returns the text with known ids of the run replaced by those of the page, and tokens cut. */
  shown(text: string): string {
    return text.replaceAll(VOLATILE, (value: string, ...rest) => {
      const groups = rest.at(-1) as Record<string, string | undefined>;
      if (groups.token !== undefined) return `${value.slice(0, 20)}…`;
      return this.#shownOf.get(value) ?? value;
    });
  }
}
