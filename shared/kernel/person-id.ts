/**
 * Form of a person's id, and of every identity header. It covers the ids of common identity providers: `auth0|5f7c`, `an+1@truong.vn`,
 * `{6f9619ff-8b86}`. `schemas/common/person-id.json` describes the same texts. A row for a person whom no header can name would be lost.
 */
const PERSON_ID = /^[A-Za-z0-9._:@+|/=~{}-]{1,128}$/;

/** Returns true if the text can be the id of a person. */
export function isPersonId(value: unknown): value is string {
  return typeof value === 'string' && PERSON_ID.test(value);
}
