import { ATTEMPT_FIELDS } from './personal-fields/attempt.ts';
import { AUTH_FIELDS } from './personal-fields/auth.ts';
import { CLASSIFIER_FIELDS } from './personal-fields/classifier.ts';
import { NOTIFICATION_FIELDS } from './personal-fields/notification.ts';
import { OPERATION_FIELDS } from './personal-fields/operation.ts';
import type { Declaration, Link } from './personal-fields/rules.ts';

/**
 * The register of personal data: a table of each collection of the product, with every field in one column. Export and erasure follow it,
 * and an export contains only what it names. A field that a row type has and its table lacks is a compile error, and so is a field that is
 * misspelt or gone. `indexes.ts` names collections of the register only, and `personal-fields.test.ts` finds every other collection in the
 * sources.
 *
 * The order is that of an erasure. Attempts and notifications come before the account, whose e-mail leads to the login rows.
 */
export const PERSONAL_FIELDS = {
  ...ATTEMPT_FIELDS,
  ...NOTIFICATION_FIELDS,
  ...CLASSIFIER_FIELDS,
  ...OPERATION_FIELDS,
  ...AUTH_FIELDS,
} as const;

/** The name of a declared collection. */
export type CollectionName = keyof typeof PERSONAL_FIELDS;

/** A link, and the collection to which it leads. */
export interface CollectionLink extends Link {
  readonly collection: CollectionName;
  /** Fields by which an earlier link finds rows of the person, so that no row is counted or exported twice. */
  readonly earlier: readonly string[];
  /** True if an earlier link finds the same rows. Erasure does several things to them. */
  readonly isRepeated: boolean;
}

export const DECLARATIONS = Object.entries(PERSONAL_FIELDS) as [CollectionName, Declaration][];

const LINKS: readonly CollectionLink[] = DECLARATIONS.flatMap(([collection, { links }]) =>
  links.map((link, index) => {
    const before = links.slice(0, index);
    return {
      ...link,
      collection,
      earlier: before.filter(({ by, field }) => by === 'person' && field !== link.field).map(({ field }) => field),
      isRepeated: before.some(({ by, field }) => by === link.by && field === link.field),
    };
  }),
);

/** Returns the links of one kind, in the order of the register. */
export function linksBy(...kinds: readonly Link['by'][]): CollectionLink[] {
  return LINKS.filter(({ by }) => kinds.includes(by));
}

/** The kind of link that leads from the ids of these rows to rows of other collections. */
export const LINKED_FROM: Readonly<Partial<Record<CollectionName, Link['by']>>> = {
  attempts: 'attempt',
  notifications: 'notification',
};
