import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import { escapeHtml, oneLine, withoutFormat } from '#shared/kernel/text.ts';
import { DAY } from '#shared/kernel/time.ts';
import type { notificationView } from './notification.ts';
import { PERSONAL_CHANNELS } from './preferences.ts';
import { reporterOf } from './weak-topic.ts';

/** How a person is reached by e-mail. The profile service owns these data, and examhall stores none of them. */
export interface Contact {
  email: string;
  /** null if unknown. */
  name: string | null;
  language: Language;
}

type Language = 'vi' | 'en';

interface EmailText {
  subject: string;
  text: string;
  html: string;
}

/** Longest accepted address, in characters (RFC 5321, 4.5.3.1.3, without the angle brackets). */
const MAX_ADDRESS_LENGTH = 254;
/** Longest name in a greeting, in characters. */
const MAX_NAME_LENGTH = 128;
/** Longest subject, in characters; mail programs show fewer. */
const MAX_SUBJECT_LENGTH = 200;
/** Longest sentence about a sender, in characters: its words and two ids. */
const MAX_SENDER_LENGTH = 600;

/**
 * An address as mail servers everywhere accept it: plain ASCII without quotes, comments or a list. A line break or a second address does
 * not match, so an address can add no header and no recipient.
 */
const ADDRESS = /^[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$/;

/** Returns true for an address to which an e-mail may be sent. */
export function isMailAddress(text: string): boolean {
  return text.length <= MAX_ADDRESS_LENGTH && ADDRESS.test(text);
}

/** Returns the contact in a reply of the profile service, or null if the reply contains no usable address. Pure. */
export function contactOf({ email, name, locale }: Readonly<Record<string, unknown>>): Contact | null {
  if (typeof email !== 'string' || !isMailAddress(email)) return null;
  const known = typeof name === 'string' ? oneLine(name, MAX_NAME_LENGTH) : '';
  return { email, name: known === '' ? null : known, language: languageOf(locale) };
}

/** Returns English for an English locale (`en`, `en-GB`), and Vietnamese for every other one. */
function languageOf(locale: unknown): Language {
  return typeof locale === 'string' && /^en([-_]|$)/i.test(locale) ? 'en' : 'vi';
}

const WORDS = {
  vi: {
    greeting: (name: string | null) => (name === null ? 'Xin chào,' : `Chào ${name},`),
    sentBy: (id: string) => `Thông báo này do một giáo viên hoặc quản trị viên gửi. Mã người gửi: ${id}.`,
    within: (id: string) => ` Mã tổ chức: ${id}.`,
    report: ' Nếu thấy nội dung bất thường, hãy báo các mã này cho nhà trường.',
    why: (sender: string) => `Bạn nhận được thư này vì có tài khoản tại ${sender}.`,
    unsubscribe: 'Ngừng nhận thư thông báo',
  },
  en: {
    greeting: (name: string | null) => (name === null ? 'Hello,' : `Hello ${name},`),
    sentBy: (id: string) => `A teacher or an administrator sent this message. Id of the sender: ${id}.`,
    within: (id: string) => ` Id of the organization: ${id}.`,
    report: ' If the message looks wrong, report these ids to the school.',
    why: (sender: string) => `You get this e-mail because you have an account at ${sender}.`,
    unsubscribe: 'Stop these e-mails',
  },
} as const;

/** The fields of a notification that its e-mail shows, or that decide what it shows. */
type Shown = Pick<ReturnType<typeof notificationView>, 'type' | 'title' | 'content' | 'actorId' | 'organizationId'>;

/** Returns the e-mail of a notification: one text for programs without HTML, and the same words as HTML. Pure. */
export function emailOf(
  notification: Shown,
  { contact, sender, unsubscribeUrl }: { contact: Contact; sender: string; unsubscribeUrl: string | null },
): EmailText {
  const { language, name } = contact;
  const words = WORDS[language];
  const [title, content] = [notification.title, notification.content].map(withoutFormat) as [string, string];
  const paragraphs = [content, senderOf(notification, language)].filter((text) => text !== null);
  const [greeting, why] = [words.greeting(name), words.why(sender)];
  const link = unsubscribeUrl === null ? '' : `\n${words.unsubscribe}: ${unsubscribeUrl}`;
  return {
    subject: oneLine(title, MAX_SUBJECT_LENGTH),
    text: `${[greeting, title, ...paragraphs].join('\n\n')}\n\n-- \n${why}${link}\n`,
    html: htmlOf({ greeting, why, title, paragraphs, language }, unsubscribeUrl),
  };
}

/** Returns who wrote a text that leaves in the name of the school, or null if a service did. The caller's token proved the id. */
function senderOf(notification: Shown, language: Language): string | null {
  const reporter = reporterOf(notification);
  if (reporter === null) return null;
  const { sentBy, within, report } = WORDS[language];
  const { organizationId } = notification;
  return oneLine(
    `${sentBy(reporter)}${organizationId === null ? '' : within(organizationId)}${report}`,
    MAX_SENDER_LENGTH,
  );
}

interface Words {
  greeting: string;
  why: string;
  title: string;
  paragraphs: readonly string[];
  language: Language;
}

/** Styles are in the elements, because many mail programs drop style sheets. There are no images, which would show the sender who reads. */
function htmlOf({ greeting, why, title, paragraphs, language }: Words, unsubscribeUrl: string | null): string {
  const label = WORDS[language].unsubscribe;
  const link = unsubscribeUrl === null ? '' : `<br><a href="${escapeHtml(unsubscribeUrl)}">${escapeHtml(label)}</a>`;
  return `<!doctype html>
<html lang="${language}">
<head><meta charset="utf-8"><title>${escapeHtml(oneLine(title, MAX_SUBJECT_LENGTH))}</title></head>
<body style="font-family:sans-serif;font-size:16px;line-height:1.5;color:#1a1a1a;max-width:38em;margin:0 auto;padding:16px">
<p>${escapeHtml(greeting)}</p>
<h1 style="font-size:20px">${escapeHtml(title)}</h1>
${paragraphs.map((text) => `<p>${escapeHtml(text).replaceAll('\n', '<br>\n')}</p>`).join('\n')}
<hr style="border:0;border-top:1px solid #cccccc">
<p style="font-size:14px;color:#555555">${escapeHtml(why)}${link}</p>
</body>
</html>
`;
}

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
