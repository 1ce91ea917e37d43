import type { BodyRule } from './route.ts';

const KIB = 1_024;

/** Most bytes of a body that is a handful of fields. */
export const SMALL_BODY = 256 * KIB;
/** Of one that carries a whole essay. */
export const ESSAY_BODY = 1_024 * KIB;
/** Of one that carries a whole paper, or the recipients of a fan-out. */
export const LARGE_BODY = 8 * 1_024 * KIB;

/** The body of a command that is all said by its path and head: none, or an object without fields. */
export const NO_FIELDS: BodyRule = { schema: 'common/no-fields', maxBytes: SMALL_BODY };
