import { createHash, randomBytes } from 'node:crypto';

/**
 * Returns a new UUIDv7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then 74 random bits. The ids of one process sort
 * by millisecond, so MongoDB appends to its `_id` index at one end.
 */
export function newId(now: number = Date.now()): string {
  return format(timeBytes(now), randomBytes(10));
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
  const time = Buffer.from(parent.replaceAll('-', '').slice(0, 12).padEnd(12, '0'), 'hex');
  const digest = createHash('sha256').update(parent).update('\0').update(name).digest();
  return format(time.length === 6 ? time : Buffer.alloc(6), digest.subarray(0, 10));
}

function timeBytes(now: number): Buffer {
  const bytes = Buffer.alloc(6);
  bytes.writeUIntBE(now, 0, 6);
  return bytes;
}

function format(time: Buffer, rest: Buffer): string {
  const bytes = Buffer.concat([time, rest]);
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
