import { DAY } from '#shared/kernel/time.ts';
import type { Reader } from './readers.ts';
import type { Row, VariableOf } from './variable.ts';

// The rows of the table of variables, by kind. `into` is the place of the value in the configuration; null: a reader of its own takes it.

type TextKind = 'text' | 'model' | 'id' | 'addresses' | 'names' | 'hosts';
type GuardedKind = Extract<Row, { readonly readers: readonly Reader[] }>['kind'];

/** Returns rows with the group under which documents list them. */
export function inGroup<Rows extends Readonly<Record<string, Row>>>(group: string, rows: Rows) {
  const grouped = Object.entries(rows).map(([name, row]) => [name, { ...row, group }]);
  return Object.fromEntries(grouped) as { [Name in keyof Rows]: Rows[Name] & { readonly group: string } };
}

/** Returns the row of a whole number from `min` to `max`. */
export function integer<const Into extends string | null, const Default extends number | null>(
  into: Into,
  value: Default,
  [min, max]: readonly [min: number, max: number],
  description: string,
) {
  return { kind: 'integer', into, default: value, min, max, factor: 1, description } as const;
}

/** Returns the row of a number of days, which the configuration holds in milliseconds. */
export function days<const Into extends string, const Default extends number | null>(
  ...row: Parameters<typeof integer<Into, Default>>
) {
  return { ...integer(...row), factor: DAY };
}

/** Returns the row of one of these words. */
export function word<const Into extends string | null, const Word extends string>(
  into: Into,
  words: readonly Word[],
  value: NoInfer<Word>,
  description: string,
) {
  return { kind: 'word', into, words, default: value, description } as const;
}

/** Returns the row of a switch: `1` is on, `0` is off. */
export function flag<const Into extends string>(
  into: Into,
  value: '0' | '1',
  description: string,
  options: { readonly productionDefault?: '0' | '1' } = {},
) {
  return { kind: 'word', into, words: ['0', '1'], default: value, description, ...options } as const;
}

/** Returns the row of some of these words. */
export function list<const Into extends string | null, const Word extends string>(
  into: Into,
  words: readonly Word[],
  value: string,
  description: string,
  options: { readonly mayBeEmpty?: true } = {},
) {
  return { kind: 'list', into, words, default: value, description, ...options } as const;
}

/** Returns the row of a text. */
export function text<
  const Into extends string | null,
  const Default extends string | null,
  const Options extends Pick<VariableOf<TextKind>, 'productionDefault'>,
>(into: Into, value: Default, description: string, options?: Options) {
  return { kind: 'text', into, default: value, description, ...(options as Options) } as const;
}

/** Returns the row of a text of another kind. */
export function textOf<
  const Kind extends TextKind,
  const Into extends string | null,
  const Default extends string | null,
>(kind: Kind, into: Into, value: Default, description: string) {
  return { kind, into, default: value, description } as const;
}

/** Returns the row of a secret or an address that only `readers` take into their configuration. By default it is not set. */
export function guarded<const Kind extends GuardedKind>(
  kind: Kind,
  readers: readonly Reader[],
  description: string,
  options: Partial<Pick<VariableOf<GuardedKind>, 'default' | 'productionDefault'>> = {},
) {
  return { kind, into: null, default: null, readers, description, ...options } as const;
}

/** Returns the row of the earlier values of a token. Only a process that its callers show the token to reads them. */
export function earlierValuesOf(name: string, readers: readonly Reader[]) {
  return guarded(
    'tokens',
    readers,
    `Earlier values of \`${name}\`, comma-separated: accepted from callers, and never sent.`,
  );
}
