import { isAddressOrNetwork, isPublicHost, isServiceName, partsOf, wantedText } from './text-forms.ts';
import type { Variable, VariableOf } from './variable.ts';
import { type NamesOf, VARIABLES, type VariableName } from './variables.ts';

type Rows = typeof VARIABLES;
type Mayless = { readonly default: null } | { readonly productionDefault: null };

/** The names of variables whose value alone decides what they mean. */
export type PlainName = NamesOf<PlainKind>;
type PlainKind =
  | 'integer'
  | 'word'
  | 'list'
  | 'text'
  | 'model'
  | 'id'
  | 'addresses'
  | 'names'
  | 'hosts'
  | 'mongodb'
  | 'redis';

/** The type of a variable's value. A word of `0` and `1` is a boolean; an optional number or text may be null. */
export type ValueOf<Name extends VariableName> = Rows[Name] extends infer Row
  ? Row extends { readonly kind: 'integer' }
    ? number | NoneOf<Row>
    : Row extends { readonly kind: 'word' | 'list'; readonly words: readonly (infer Word)[] }
      ? WordOf<Row['kind'], Word>
      : Row extends { readonly kind: 'text' | 'model' | 'id' }
        ? string | NoneOf<Row>
        : Row extends { readonly kind: 'mongodb' | 'redis' }
          ? string
          : readonly string[]
  : never;
type NoneOf<Row> = Row extends Mayless ? null : never;
type WordOf<Kind, Word> = Kind extends 'list' ? ReadonlySet<Word> : [Word] extends ['0' | '1'] ? boolean : Word;

interface Deps {
  /** Returns the text of a variable, or its default; null: it has none. */
  read(name: VariableName): string | null;
  /** True if this process reads the variable. */
  reads(name: VariableName): boolean;
  /** Notes a fault: the variable has another value than the wanted one. */
  refuse(name: VariableName, wanted: string): void;
}

/** Returns the reader of plain variables. A faulty one is returned as a harmless value of its type. */
export function plainValues({ read, reads, refuse }: Deps): <Name extends PlainName>(name: Name) => ValueOf<Name> {
  function integerOf(name: PlainName, { min, max, factor }: VariableOf<'integer'>): number | null {
    const text = read(name);
    if (text === null) return null;
    const value = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value * factor;
    refuse(name, `an integer from ${min} to ${max}`);
    return min * factor;
  }

  function wordOf(name: PlainName, { words }: VariableOf<'word' | 'list'>): string | boolean | undefined {
    const found = words.find((word) => word === read(name));
    if (found === undefined) refuse(name, `one of ${words.join(', ')}`);
    const word = found ?? words[0];
    return words.join() === '0,1' ? word === '1' : word;
  }

  function listOf(name: PlainName, { words, mayBeEmpty }: VariableOf<'word' | 'list'>): ReadonlySet<string> {
    const value = read(name) ?? '';
    // The empty string is an empty list if the variable may be empty; otherwise it is a fault.
    const parts = value === '' && mayBeEmpty === true ? [] : everyPartOf(value);
    if (!parts.every((part) => words.includes(part))) refuse(name, `some of ${words.join(', ')}, comma-separated`);
    return new Set(words.filter((word) => parts.includes(word)));
  }

  function textOf(name: PlainName, kind: 'text' | 'model' | 'id' | 'mongodb' | 'redis'): string | null {
    if (!reads(name)) return '';
    const value = read(name);
    if (value === null && kind !== 'mongodb' && kind !== 'redis') return null;
    const wanted = wantedText(kind, value ?? '');
    if (wanted !== undefined) refuse(name, wanted);
    return value ?? '';
  }

  function textsOf(name: PlainName, kind: 'addresses' | 'names' | 'hosts'): readonly string[] {
    const text = read(name) ?? '';
    const { isNone, isValid, wanted } = LISTS[kind];
    const values = isNone?.(text) ? [] : kind === 'addresses' ? partsOf(text) : everyPartOf(text);
    if (!values.every(isValid)) refuse(name, wanted);
    return values;
  }

  function value(name: PlainName): unknown {
    const row: Variable = VARIABLES[name];
    switch (row.kind) {
      case 'integer':
        return integerOf(name, row);
      case 'word':
        return wordOf(name, row);
      case 'list':
        return listOf(name, row);
      case 'addresses':
      case 'names':
      case 'hosts':
        return textsOf(name, row.kind);
      case 'text':
      case 'model':
      case 'id':
      case 'mongodb':
      case 'redis':
        return textOf(name, row.kind);
      default:
        throw new Error(`${name} has a reader of its own`);
    }
  }

  return value as <Name extends PlainName>(name: Name) => ValueOf<Name>;
}

/** The forms of the parts of a list. */
const LISTS = {
  addresses: {
    isNone: (text: string) => text === 'none',
    isValid: isAddressOrNetwork,
    wanted: 'IP addresses and networks in CIDR notation, comma-separated, or none',
  },
  names: { isNone: undefined, isValid: isServiceName, wanted: 'names of services, comma-separated' },
  hosts: {
    isNone: undefined,
    isValid: isPublicHost,
    wanted: 'public host names in small letters, comma-separated, each perhaps with a leading *.',
  },
};

/** Returns the parts of a list that has at least one. */
const everyPartOf = (list: string): string[] => list.split(',').map((part) => part.trim());
