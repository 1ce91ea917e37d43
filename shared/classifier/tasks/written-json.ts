import { isDeeperThan } from '#shared/kernel/json.ts';
import { countMembers } from '#shared/kernel/large-json.ts';
import { closingQuote, membersIn, parseJsonText } from '#shared/kernel/parse-json.ts';

/** A reasoning block that some models write before their answer. A server's template may have swallowed its first mark. */
const REASONING = /^(?:\s*<(think|thinking|reasoning|thought)>[\s\S]*?<\/\1>)+/i;
const END_OF_REASONING = /<\/(?:think|thinking|reasoning|thought)>/i;

/**
 * Returns the one JSON value that a model has written; undefined if it has written no value or several. Models that run without a schema write reasoning before it, a Markdown fence round it and sentences beside it.
 */
export function jsonIn(text: string): unknown {
  const whole = text.replace(/^\uFEFF/, '').trim();
  const bare = parsed(whole);
  if (bare !== undefined) return bare;

  const answered = withoutReasoning(whole);
  const fenced = parsed(withoutFence(answered));
  if (fenced !== undefined) return fenced;

  const [only, ...others] = objectsIn(answered);
  return others.length === 0 ? only : undefined;
}

function withoutFence(text: string): string {
  const isFenced = text.length > 6 && text.startsWith('```') && text.endsWith('```');
  return isFenced ? text.slice(3, -3).replace(/^[a-z]*/i, '') : text;
}

function withoutReasoning(text: string): string {
  const rest = text.replace(REASONING, '');
  const end = rest === text ? END_OF_REASONING.exec(text) : null;
  return (end === null ? rest : text.slice(end.index + end[0].length)).trim();
}

/** Returns the JSON objects between the sentences of a text. Braces that hold no JSON are part of a sentence. */
function objectsIn(text: string): unknown[] {
  const found: unknown[] = [];
  for (let from = text.indexOf('{'); from !== -1; ) {
    const to = endOfObject(text, from);
    if (to === -1) return found;
    const value = parsed(text.slice(from, to));
    if (value !== undefined) found.push(value);
    from = text.indexOf('{', to);
  }
  return found;
}

/** Returns the place behind the brace that closes the one at `from`, or -1. Braces inside of strings do not count. */
function endOfObject(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === '"') at = closingQuote(text, at);
    if (at === -1) return -1;
    if (text[at] === '{') depth += 1;
    if (text[at] === '}') depth -= 1;
    if (depth === 0) return at + 1;
  }
  return -1;
}

/** Deepest nesting of an answer: more than any schema has, and little enough for functions that call themselves. */
export const MAX_ANSWER_DEPTH = 200;

/** Returns the value of a JSON text. A name that is written twice makes it unusable: either value may be meant. */
function parsed(text: string): unknown {
  try {
    const value = parseJsonText(text);
    return isDeeperThan(MAX_ANSWER_DEPTH, value) || countMembers(value) < membersIn(text) ? undefined : value;
  } catch {
    return undefined;
  }
}
