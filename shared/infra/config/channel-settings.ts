import { isIPv6 } from 'node:net';
import { type VapidKeys, vapidKeys } from '#infra/channels/keys.ts';
import { isMailAddress, unsubscribeKey } from '#shared/notification/email.ts';
import type { ValueOf } from './plain-values.ts';
import type { VariableReader } from './variable-reader.ts';

/**
 * Settings of the channels that call other systems. Each is read whole, so that a fault in the settings of an unused channel is a fault
 * too. In a process that does not read the secret of a channel, the channel has no settings, and lacks none.
 */

export interface WebhookSettings {
  url: string;
  secrets: readonly string[];
  timeoutMs: number;
}

export function readWebhook(from: VariableReader, isOn: boolean): WebhookSettings | null {
  const url = from.webhook('NOTIFICATION_WEBHOOK_URL');
  const secret = from.webhookSecret('NOTIFICATION_WEBHOOK_SECRET');
  const previous = from.webhookSecret('NOTIFICATION_WEBHOOK_SECRET_PREVIOUS');
  const timeoutMs = from.value('NOTIFICATION_WEBHOOK_TIMEOUT_MS');
  if (!isOn || !from.reads('NOTIFICATION_WEBHOOK_SECRET')) return null;
  if (url?.startsWith('http:')) from.plainHttp.add('NOTIFICATION_WEBHOOK_URL');
  if (url === null) from.faults.push('NOTIFICATION_WEBHOOK_URL: not set, wanted by the webhook channel');
  if (secret === undefined) from.faults.push('NOTIFICATION_WEBHOOK_SECRET: not set, wanted by the webhook channel');
  const secrets = [secret, previous].filter((one) => one !== undefined);
  return { url: url ?? '', secrets, timeoutMs };
}

/** Time limit of one e-mail, from its wait for a connection to the reply of the mail server. */
const EMAIL_TIMEOUT_MS = 20_000;
/** Time limit of one call to a push service. */
const PUSH_TIMEOUT_MS = 10_000;
/** Time for which a push service stores a message for a browser that is off. */
const PUSH_TTL_SECONDS = 86_400;

export interface EmailSettings {
  host: string;
  port: number;
  /** `starttls`: the connection begins in plain text and continues only if TLS succeeds. `implicit`: TLS from the first byte. */
  tls: ValueOf<'NOTIFICATION_EMAIL_TLS'>;
  /** null: the mail server requires no login. */
  login: { user: string; password: string } | null;
  /** Address of the sender. */
  from: string;
  /** Name of the sender, as mail programs show it. */
  senderName: string;
  /** Time limit of one e-mail, in milliseconds. */
  timeoutMs: number;
}

/** Reads the settings of the `email` channel. It needs the profile service too, which knows the addresses. */
export function readEmail(
  from: VariableReader,
  { isOn, hasProfile }: { isOn: boolean; hasProfile: boolean },
): EmailSettings | null {
  const host = from.value('NOTIFICATION_EMAIL_HOST');
  const address = from.value('NOTIFICATION_EMAIL_FROM');
  const user = from.value('NOTIFICATION_EMAIL_USER');
  const password = from.key('NOTIFICATION_EMAIL_PASSWORD');
  const settings: EmailSettings = {
    host: host ?? '',
    port: from.value('NOTIFICATION_EMAIL_PORT'),
    tls: from.value('NOTIFICATION_EMAIL_TLS'),
    login: user === null || password === undefined ? null : { user, password },
    from: address ?? '',
    senderName: from.value('NOTIFICATION_EMAIL_SENDER_NAME'),
    timeoutMs: EMAIL_TIMEOUT_MS,
  };
  const { faults } = from;
  if (host !== null && !HOST.test(host) && !isIPv6(host))
    faults.push('NOTIFICATION_EMAIL_HOST: wanted a host name or an IP address');
  if (address !== null && !isMailAddress(address))
    faults.push('NOTIFICATION_EMAIL_FROM: wanted an address such as no-reply@school.example');
  if (/\p{Cc}/u.test(settings.senderName)) faults.push('NOTIFICATION_EMAIL_SENDER_NAME: wanted one line of text');
  if (!from.reads('NOTIFICATION_EMAIL_PASSWORD')) return null;
  if ((user === null) !== (password === undefined))
    faults.push('NOTIFICATION_EMAIL_USER, NOTIFICATION_EMAIL_PASSWORD: one is not set, wanted both or neither');
  if (!isOn) return null;
  if (host === null) faults.push('NOTIFICATION_EMAIL_HOST: not set, wanted by the email channel');
  if (address === null) faults.push('NOTIFICATION_EMAIL_FROM: not set, wanted by the email channel');
  if (!hasProfile) {
    faults.push('PROFILE_SERVICE_URL: not set, wanted by the email channel: the profile service knows the addresses');
  }
  if (settings.tls === 'none' && host !== null && !LOOPBACK.test(host))
    faults.push(
      'NOTIFICATION_EMAIL_TLS: set to "none", wanted starttls or implicit for a host that is not a loopback address',
    );
  return settings;
}

export interface WebPushSettings {
  keys: VapidKeys;
  /** The text of the private key, which the log redacts. */
  privateKey: string;
  /** How the operators of push services reach the school: a `mailto:` or an https address. */
  subject: string;
  /** Time for which a push service stores a message for a browser that is off. */
  ttlSeconds: number;
  timeoutMs: number;
}

/** Reads the settings of the `webpush` channel: null without a key. With a key, pages can already subscribe while the channel is off. */
export function readWebPush(from: VariableReader, isOn: boolean): WebPushSettings | null {
  const key = from.key('NOTIFICATION_WEBPUSH_PRIVATE_KEY');
  const subject = from.value('NOTIFICATION_WEBPUSH_SUBJECT');
  const keys = key === undefined ? null : vapidKeys(key);
  const { faults } = from;
  if (key !== undefined && keys === null)
    faults.push(
      'NOTIFICATION_WEBPUSH_PRIVATE_KEY: set to a value not shown here, wanted 32 bytes of a P-256 key in base64url',
    );
  if (subject !== null && !/^(mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/.test(subject))
    faults.push('NOTIFICATION_WEBPUSH_SUBJECT: wanted mailto: and an address, or an https URL');
  if (!from.reads('NOTIFICATION_WEBPUSH_PRIVATE_KEY')) return null;
  if ((isOn || key !== undefined) && subject === null)
    faults.push('NOTIFICATION_WEBPUSH_SUBJECT: not set, wanted beside the key of the webpush channel');
  if (isOn && key === undefined)
    faults.push('NOTIFICATION_WEBPUSH_PRIVATE_KEY: not set, wanted by the webpush channel');
  return keys === null || key === undefined
    ? null
    : { keys, privateKey: key, subject: subject ?? '', ttlSeconds: PUSH_TTL_SECONDS, timeoutMs: PUSH_TIMEOUT_MS };
}

export interface UnsubscribeSettings {
  url: string;
  key: Buffer;
  /** The secret of the key, which the log redacts. */
  secret: string;
}

/** Reads the address and the secret of the links that turn e-mails off: both or neither. */
export function readUnsubscribe(from: VariableReader): UnsubscribeSettings | null {
  const url = from.webhook('NOTIFICATION_UNSUBSCRIBE_URL');
  const secret = from.secret('NOTIFICATION_UNSUBSCRIBE_SECRET', url !== null);
  return url === null || secret === '' ? null : { url, key: unsubscribeKey(secret), secret };
}

const HOST = /^[A-Za-z0-9][A-Za-z0-9.-]{0,252}$/;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1)$/;
