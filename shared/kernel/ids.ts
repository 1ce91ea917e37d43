import { hash, randomBytes } from 'node:crypto';

/**
 * Returns a new UUIDv7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then 74 random bits. The ids of one process sort
 * by millisecond, so MongoDB appends to its `_id` index at one end.
 */
export function newId(now: number = Date.now()): string {
  return format(now.toString(16).padStart(12, '0'), randomBytes(10).toString('hex'));
}

/** Returns whether a text has the form of the ids that `newId` and `derivedId` return. Other systems may use the same form. */
export function isNewId(text: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(text);
}

/**
 * Returns the id of a part (`question:3`, `event:17`) of a parent that has a UUIDv7. The id consists of the parent's time and
 * 74 bits of SHA-256 over parent and name. The same input always has the same id, so parts need no stored id.
 */
export function derivedId(parent: string, name: string): string {
  const time = parent.replaceAll('-', '').slice(0, 12).padEnd(12, '0').toLowerCase();
  return format(HEX_TIME.test(time) ? time : NO_TIME, hash('sha256', `${parent}\0${name}`));
}

const HEX_TIME = /^[0-9a-f]{12}$/;
const NO_TIME = '0'.repeat(12);
/** First digit of the fourth group. Its two high bits are the variant of RFC 9562. */
const VARIANTS = '89ab';

/** Returns the UUIDv7 of 12 digits of time and the next 18 and a half digits of `rest`, all hexadecimal in lower case. */
function format(time: string, rest: string): string {
  const variant = VARIANTS[Number.parseInt(rest.charAt(4), 16) & 3];
  return `${time.slice(0, 8)}-${time.slice(8)}-7${rest.slice(1, 4)}-${variant}${rest.slice(5, 8)}-${rest.slice(8, 20)}`;
}

/**
 * Form of a person's id, and of every identity header. It covers the ids of common identity providers: `auth0|5f7c`, `an+1@truong.vn`,
 * `{6f9619ff-8b86}`. `schemas/common/person-id.json` describes the same texts. A row for a person whom no header can name would be lost.
 */
const PERSON_ID = /^[A-Za-z0-9._:@+|/=~{}-]{1,128}$/;

/** Returns true if the text can be the id of a person. */
export function isPersonId(value: unknown): value is string {
  return typeof value === 'string' && PERSON_ID.test(value);
}
