import { escapeHtml } from '#shared/kernel/text.ts';

/** A piece of HTML in which every value is escaped. Only `html` and `flag` make one, so that no text can pass as HTML. */
export type Html = Markup;

/** A value of a template. An absent one is written as nothing. */
type Value = Html | string | number | null | undefined | false | readonly Value[];

class Markup {
  readonly #text: string;
  readonly isFlag: boolean;

  constructor(text: string, isFlag: boolean) {
    this.#text = text;
    this.isFlag = isFlag;
  }

  toString(): string {
    return this.#text;
  }
}

/** Where a value is in a template: between tags, in a quoted attribute, in one that holds a URL, or inside a tag. */
type Hole = 'text' | 'attribute' | 'url' | 'tag';

/** Holes of each template, which are found at its first use. */
const HOLES = new WeakMap<TemplateStringsArray, readonly Hole[]>();

/**
 * Returns the HTML of a template. Values between tags and in attributes are escaped; a URL must be one of this server. Attributes are in
 * double quotes, and only `flag` may add one.
 * @throws Error if a value is where escaping could not make it harmless
 */
export function html(strings: TemplateStringsArray, ...values: Value[]): Html {
  let holes = HOLES.get(strings);
  if (holes === undefined) {
    holes = holesOf(strings);
    HOLES.set(strings, holes);
  }
  let text = strings[0] ?? '';
  for (let i = 0; i < values.length; i += 1) text += written(values[i], holes[i] ?? 'tag') + (strings[i + 1] ?? '');
  return new Markup(text, false);
}

/** Returns an attribute without a value if `isOn`, such as ` checked`; for a template's tag. */
export function flag(name: 'checked' | 'selected' | 'disabled' | 'hidden' | 'required' | 'open', isOn: boolean): Html {
  return new Markup(isOn ? ` ${name}` : '', true);
}

/** A URL of this server. Browsers read a backslash as a slash and drop tabs and line feeds. */
const OWN_URL = /^(?:\/(?![/\\])|[?#])[^\t\n\r\\]*$/;

function written(value: Value, hole: Hole): string {
  if (value === null || value === undefined || value === false) return '';
  if (hole !== 'text' && hole !== 'tag' && typeof value !== 'object') {
    if (hole === 'url' && !OWN_URL.test(String(value))) throw new Error('a URL of a page must be one of this server');
    return escapeHtml(String(value));
  }
  if (value instanceof Markup && hole === (value.isFlag ? 'tag' : 'text')) return value.toString();
  if (hole !== 'text' || value instanceof Markup) throw new Error(`a value in a template cannot be a ${hole}`);
  return typeof value === 'object' ? value.map((one) => written(one, hole)).join('') : escapeHtml(String(value));
}

/** Attributes that run script or style, and elements whose content is no HTML. */
const FORBIDDEN =
  /[\s"/](?:on\w+|style|srcdoc|srcset)\s*=|<(?:style|iframe|object|embed|template|svg:|math)\b|<script(?![^>]*><\/script>)|<!--/i;
const URL_ATTRIBUTE = /[\s"](?:href|src|action|formaction)="$/i;

function holesOf(strings: TemplateStringsArray): Hole[] {
  if (FORBIDDEN.test(strings.join('\u0000')))
    throw new Error(`a template contains what no page needs: ${strings.join('…')}`);
  const holes: Hole[] = [];
  let state: Hole = 'text';
  for (const part of strings) {
    for (const char of part) {
      if (state === 'text') state = char === '<' ? 'tag' : 'text';
      else if (state === 'tag') state = char === '>' ? 'text' : char === '"' ? 'attribute' : 'tag';
      else if (char === '"') state = 'tag';
      if (state === 'tag' && char === "'") throw new Error('an attribute of a template is in double quotes');
    }
    const isTail = state === 'tag' && /[<=/]\s*$/.test(part);
    if (isTail && holes.length < strings.length - 1) throw new Error('a value cannot be a tag or a bare attribute');
    holes.push(state === 'attribute' && URL_ATTRIBUTE.test(part) ? 'url' : state);
  }
  if (holes.pop() !== 'text') throw new Error('a template ends inside a tag');
  return holes;
}
