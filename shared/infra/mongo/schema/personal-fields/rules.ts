import type { Document } from 'mongodb';

/** The ids of the person that an update needs. `pseudonym` replaces `id`. */
export interface PersonKeys {
  id: string;
  pseudonym: string;
}

/**
 * Erasure of the rows behind a link: delete them, update all at once, or rewrite each by a function of `person/rewrite.ts`. Afterwards no
 * row may match the link and its `pending`. `with its attempt`: the rewrite of the attempt changes them in its own transaction, because
 * readers expect the long texts of an attempt as long as it names them. `delete with its row`: they are deleted only in the transaction
 * that deletes the row on which they depend.
 */
export type Erasure =
  | 'delete'
  | { readonly update: (keys: PersonKeys) => Document | Document[] }
  | { readonly rewrite: 'attempt' | 'seat' | 'generation' }
  | 'with its attempt'
  | 'delete with its row';

/** A way from a person to rows of a collection. Every field of a link leads an index. */
export interface Link {
  /**
   * Value of `field`: the person's id, the digest of the account's e-mail, the id of an attempt, or the id of a notification to the
   * person or about the person.
   */
  readonly by: 'person' | 'email' | 'attempt' | 'notification';
  readonly field: string;
  readonly erase: Erasure;
  /** Only these rows are left to erase; for an update after which a row still has the value of the link. */
  readonly pending?: Document;
  /** Rows that must wait until they no longer match, because other work still needs them. Erasure goes on at the next run. */
  readonly waits?: (now: Date) => Document;
  /** Words: the only fields that an export contains of these rows, because others have a part in them. Empty: no row. */
  readonly shows?: string;
}

const EXPORTED = ['deleted', 'pseudonym', 'removed', 'stays'] as const;
const COLUMNS = [...EXPORTED, 'secret', 'technical'] as const;

/**
 * Treatment of a field when its person is exported or erased. An export contains the fields of the first four columns and no other.
 * - `deleted`: goes with its row.
 * - `pseudonym`: a random word replaces the id, the same in all rows of the person.
 * - `removed`: becomes null, empty text or an empty object.
 * - `stays`: never depends on a person.
 * - `secret`: never leaves the system, or is about other people. It goes with its row.
 * - `technical`: serves the product alone, and never depends on a person.
 *
 * A field that stays although it leads to a person also has a reason in `kept`. The receipt of an erasure prints it.
 */
export type Column = (typeof COLUMNS)[number];

/** The fields of each column, as words. */
type Table<Row> = { readonly [C in Column]?: string } & {
  readonly kept?: { readonly [Field in FieldOf<Row>]?: string };
};

/** Names of the fields of a row; of a union of rows, of any of them. */
type FieldOf<Row> = Row extends unknown ? Extract<keyof Row, string> : never;

type WordOf<Text, Found = never> = Text extends `${infer Line}\n${infer Rest}`
  ? WordOf<Rest, Found | WordOf<Line>>
  : Text extends `${infer Word} ${infer Rest}`
    ? WordOf<Rest, Found | Word>
    : Exclude<Found | Text, ''>;

type In<T, C> = WordOf<T[Extract<keyof T, C>]>;

/** `unknown` if each field of the row is in one column; otherwise the faults, as a type that the table does not have. */
type Faults<Row, T> = Unless<{
  'in no column': Exclude<FieldOf<Row>, In<T, Column>>;
  'in two columns': { [C in Column]: In<T, C> & In<T, Exclude<Column, C>> }[Column];
  'no field of the row': Exclude<In<T, Column>, FieldOf<Row>>;
}>;
type Unless<F> = [F[keyof F]] extends [never] ? unknown : F;

/** Personal data of a collection. */
export interface Declaration {
  /** Empty: the rows hold no person, or hold one that is kept. */
  readonly links: readonly Link[];
  /** The column of each field. */
  readonly fields: Readonly<Record<string, Column>>;
  readonly kept: Readonly<Record<string, string>>;
}

/** Returns the declaration of a collection of such rows. A table that misses or repeats a field of the row does not compile. */
export function declareRows<Row>() {
  return <const T extends Table<Row>>(links: readonly Link[], table: T & Faults<Row, T>): Declaration => {
    const columns: Table<Row> = table;
    const fields = COLUMNS.flatMap((column) => wordsOf(columns[column] ?? '').map((field) => [field, column]));
    return { links, fields: Object.fromEntries(fields), kept: { ...columns.kept } };
  };
}

/** Returns the fields that an export contains of a collection, or of its rows behind a link. */
export function exportedFields({ fields }: Declaration, { shows }: Pick<Link, 'shows'> = {}): string[] {
  const isExported = (field: string) => EXPORTED.some((column) => column === fields[field]);
  return (shows === undefined ? Object.keys(fields) : wordsOf(shows)).filter(isExported);
}

function wordsOf(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== '');
}

/** Declares a collection whose rows are deleted with the person to whom `field` belongs. */
export function byPerson(field: string): Link {
  return { by: 'person', field, erase: 'delete' };
}

/** Declares a link to rows that stay and are updated. */
export function updated(field: string, update: (keys: PersonKeys) => Document | Document[], shows?: string): Link {
  return { by: 'person', field, erase: { update }, ...(shows === undefined ? {} : { shows }) };
}
