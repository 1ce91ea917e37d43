/** A piece of TypeScript source. Comments and blanks are none. */
export interface Token {
  /** A regular expression and the ends of a template that holds `${}` are marks. A template without `${}` is a string. */
  readonly kind: 'word' | 'string' | 'mark';
  /** A word or mark as written; a string without its quotes, its escapes as written. */
  readonly text: string;
  readonly line: number;
}

const LEXEME = new RegExp(
  [
    String.raw`(?<blank>\s+|//.*|/\*[\s\S]*?\*/)`,
    String.raw`'(?<single>(?:\\[\s\S]|[^'\\\n])*)'`,
    String.raw`"(?<double>(?:\\[\s\S]|[^"\\\n])*)"`,
    String.raw`(?<word>[\p{ID_Start}\d$_][\p{ID_Continue}$]*)`,
    String.raw`(?<mark>[\s\S])`,
  ].join('|'),
  'uy',
);
/** The text of a template from its opening mark, or from the end of a `${}`, to the next `${` or the closing mark. */
const TEMPLATE_TEXT = /((?:\\[\s\S]|\$(?!\{)|[^`\\$])*)(`|\$\{)/uy;
const REGULAR_EXPRESSION = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/\w*/uy;
/** Words after which a value begins, so that a slash opens a regular expression and does not divide. */
const BEFORE_VALUE = /^(?:await|case|delete|do|else|in|instanceof|new|of|return|throw|typeof|void|yield)$/;
const VALUE_ENDS = [')', ']', '}', '`'];

/**
 * Splits a TypeScript source into tokens. A slash after `)` or `}` is read as a division.
 * @throws Error if a template does not end: the source is broken, or a regular expression was read as a division.
 */
export function readTokens(source: string): Token[] {
  const tokens: Token[] = [];
  /** Open braces; a template mark stands for the brace of a `${`. */
  const open: ('{' | '`')[] = [];
  let at = 0;
  let line = 1;

  function match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = at;
    const found = pattern.exec(source);
    if (found !== null) at = pattern.lastIndex;
    return found;
  }

  function push(kind: Token['kind'], text: string): void {
    tokens.push({ kind, text, line });
  }

  function readTemplateText(isStart: boolean): void {
    const [whole, text = '', end] = match(TEMPLATE_TEXT) ?? [];
    if (whole === undefined) throw new Error(`line ${line}: a template does not end`);
    if (end === '${') open.push('`');
    if (isStart && end === '`') push('string', text);
    else push('mark', '`');
    line += newlines(whole);
  }

  while (at < source.length) {
    if (source[at] === '/' && mayBeExpression(source, at, tokens.at(-1)) && match(REGULAR_EXPRESSION) !== null) {
      // As the end of a value: a slash behind it divides.
      push('mark', '`');
      continue;
    }
    const found = match(LEXEME);
    const { single, double, word, mark } = found?.groups ?? {};
    const text = single ?? double;
    if (text !== undefined) push('string', text);
    else if (word !== undefined) push('word', word);
    else if (mark === '`') readTemplateText(true);
    else if (mark === '}' && open.pop() === '`') readTemplateText(false);
    else if (mark !== undefined) {
      if (mark === '{') open.push('{');
      push('mark', mark);
    }
    line += newlines(found?.[0] ?? '');
  }
  return tokens;
}

/** Decides by the token before it whether a slash opens a regular expression. */
function mayBeExpression(source: string, at: number, previous: Token | undefined): boolean {
  if (source[at + 1] === '/' || source[at + 1] === '*') return false;
  if (previous === undefined) return true;
  if (previous.kind === 'word') return BEFORE_VALUE.test(previous.text);
  return previous.kind === 'mark' && !VALUE_ENDS.includes(previous.text);
}

function newlines(text: string): number {
  return text.split('\n').length - 1;
}
