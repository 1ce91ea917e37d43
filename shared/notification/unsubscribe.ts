import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import { DAY } from '#shared/kernel/time.ts';
import { PERSONAL_CHANNELS } from './preferences.ts';

/** A channel of one user, which a holder of the token may turn off and nothing else. */
export interface Unsubscribe {
  userId: string;
  channel: (typeof PERSONAL_CHANNELS)[number];
}

/** Validity of a link. Mail programs show old e-mails, and a school year is the life of most of them. */
const VALID_MS = 400 * DAY;
const KEY_BYTES = 32;
/** 128 bits: a caller cannot find a token by trial. */
const MAC_BYTES = 16;
const TOKEN = /^1\.([A-Za-z0-9_-]{1,700})\.([a-z]{1,20})\.(\d{1,12})\.([A-Za-z0-9_-]{22})$/;

/** Returns the key that signs links. It is derived, so that the secret itself signs nothing. */
export function unsubscribeKey(secret: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', 'examhall unsubscribe', KEY_BYTES));
}

/** Returns the address by which a user turns a channel off: on a POST by one click (RFC 8058), on a GET by a page with a button. Pure. */
export function unsubscribeUrl(base: string, key: Buffer, { userId, channel }: Unsubscribe, now: number): string {
  const expires = Math.floor((now + VALID_MS) / 1_000);
  const signed = `1.${Buffer.from(userId).toString('base64url')}.${channel}.${expires}`;
  const url = new URL(base);
  url.searchParams.set('token', `${signed}.${macOf(key, signed).toString('base64url')}`);
  return url.href;
}

/** Returns what the token of a link permits, or null if it is forged, malformed or expired. Pure. */
export function readUnsubscribeToken(key: Buffer, token: string, now: number): Unsubscribe | null {
  const match = TOKEN.exec(token);
  if (match === null) return null;
  const [, user = '', name = '', expires = '', mac = ''] = match;
  const given = Buffer.from(mac, 'base64url');
  const wanted = macOf(key, token.slice(0, token.lastIndexOf('.')));
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return null;
  const channel = PERSONAL_CHANNELS.find((one) => one === name);
  if (channel === undefined || Number(expires) * 1_000 <= now) return null;
  return { userId: Buffer.from(user, 'base64url').toString('utf8'), channel };
}

function macOf(key: Buffer, signed: string): Buffer {
  return createHmac('sha256', key).update(signed).digest().subarray(0, MAC_BYTES);
}
