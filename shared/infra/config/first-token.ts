import type { VariableReader } from './variable-reader.ts';
import type { NamesOf } from './variables.ts';

/** The first of these that is set decides, even by being empty: an empty token is no token, not the next one. */
export function firstToken(from: VariableReader, names: readonly NamesOf<'token'>[]): string | undefined {
  const values = names.map((name) => ({ set: from.isSet(name), value: from.token(name) }));
  return values.find((token) => token.set)?.value;
}
