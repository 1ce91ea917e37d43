import type { Document } from 'mongodb';

/**
 * Treatment of one stored field when its person is erased.
 * - `no person`: the field never depends on a person.
 * - `with its row`: the row is deleted.
 * - `pseudonym`: a random word replaces the id, the same in all rows of the person.
 * - `removed`: the field becomes null, empty text or an empty object.
 * - `kept`: the field stays, for the reason.
 *
 * `secret`: an export never contains the field.
 */
export type FieldRule =
  | Treatment
  | { readonly kept: string }
  | { readonly secret: Treatment }
  | { readonly secret: { readonly kept: string } };

export type Treatment = 'no person' | 'with its row' | 'pseudonym' | 'removed';

/** Names of the fields of a row; of a union of rows, of any of them. */
type FieldOf<Row> = Row extends unknown ? Extract<keyof Row, string> : never;

/** A rule for each field of a row. A field without a rule is a compile error. */
export type FieldRules<Row> = { readonly [Field in FieldOf<Row>]-?: FieldRule };

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
  /** Fields that an export omits here, because they are about other people; `all`: the whole row. */
  readonly omit?: readonly string[] | 'all';
}

export interface Declaration<Row> {
  /** Empty: the rows hold no person, or hold one that is kept. */
  readonly links: readonly Link[];
  readonly fields: FieldRules<Row>;
}

/** A declaration whose row type is forgotten, for code that treats all collections alike. */
export interface AnyDeclaration {
  readonly links: readonly Link[];
  readonly fields: Readonly<Record<string, FieldRule>>;
}

/** Declares a collection whose rows are deleted with the person to whom `field` belongs. */
export function byPerson(field: string): Link {
  return { by: 'person', field, erase: 'delete' };
}
