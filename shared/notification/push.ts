import { createHash, ECDH } from 'node:crypto';
import type { PushSubscriptionRequest } from '#shared/generated/notification.ts';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { withoutFormat } from '#shared/kernel/text.ts';
import type { notificationView } from './notification.ts';

/** A browser that gets push messages of one user, as its page has registered it. */
export interface PushSubscription {
  /** Digest of the endpoint: the same browser has the same id. */
  id: string;
  /** Address at the push service of the browser's vendor. It is a secret: with the keys of this server it reaches the browser. */
  endpoint: string;
  /** Public key of the browser, base64url. */
  p256dh: string;
  /** Secret that browser and server share, base64url. */
  auth: string;
  createdAt: Date;
}

/** The browsers of one user; a further one takes the place of the oldest. */
export const MAX_SUBSCRIPTIONS = 10;

const MAX_ENDPOINT_LENGTH = 2_048;

/**
 * Returns true for an address at one of the push services that are allowed: https, the default port, and the host. A user chooses the
 * address, and without a list this server would call any host for the user. The worker also checks the addresses to which the name leads, at
 * each call. Pure.
 */
export function isPushEndpoint(text: string, hosts: readonly string[]): boolean {
  const url = URL.parse(text);
  if (url === null || url.protocol !== 'https:' || url.port !== '' || /[\s#]/.test(text)) return false;
  if (text.length > MAX_ENDPOINT_LENGTH || url.username !== '' || url.password !== '') return false;
  return hosts.some((host) => (host.startsWith('*.') ? url.hostname.endsWith(host.slice(1)) : url.hostname === host));
}

/** Returns the faults of a subscription that its schema does not detect. `hosts`: those of the push services. */
export function subscriptionFaults(
  { endpoint, keys }: PushSubscriptionRequest,
  hosts: readonly string[],
): FaultDetail[] {
  const faults: FaultDetail[] = [];
  if (!isPushEndpoint(endpoint, hosts))
    faults.push({ path: '/endpoint', message: 'must be the https address of a push service that the operator allows' });
  if (!isPoint(keys.p256dh)) faults.push({ path: '/keys/p256dh', message: 'must be a public key of the curve P-256' });
  return faults;
}

function isPoint(text: string): boolean {
  try {
    ECDH.convertKey(Buffer.from(text, 'base64url'), 'prime256v1');
    return true;
  } catch {
    return false;
  }
}

/** Returns the row of a subscription without faults. */
export function subscriptionOf({ endpoint, keys }: PushSubscriptionRequest, createdAt: Date): PushSubscription {
  return { id: digest(endpoint), endpoint, p256dh: keys.p256dh, auth: keys.auth, createdAt };
}

/** Returns a subscription as a reply shows it: without its keys, and of its address the origin alone. */
export function subscriptionView({ id, endpoint, createdAt }: PushSubscription) {
  return { id, origin: new URL(endpoint).origin, createdAt: createdAt.toISOString() };
}

/** Returns 32 characters, the longest `Topic` of a push message (RFC 8030, 5.4). */
export function topicOf(notificationId: string): string {
  return digest(notificationId);
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 32);
}

/** Push services take 4,096 bytes of body. Its header, padding delimiter and tag take 103. */
const MAX_PAYLOAD_BYTES = 3_900;
const MAX_TITLE_LENGTH = 200;

/**
 * Returns the text of a push message: JSON for the service worker of the page. A content that is too long for a push service is cut, with
 * an ellipsis; the page reads the whole notification by its id. Pure.
 */
export function pushPayload(
  deliveryJobId: string,
  { id, type, title, content, createdAt }: ReturnType<typeof notificationView>,
): string {
  const shortTitle = cut(withoutFormat(title), MAX_TITLE_LENGTH);
  const plainContent = withoutFormat(content);
  const textOf = (shown: string) =>
    JSON.stringify({ deliveryJobId, notification: { id, type, title: shortTitle, content: shown, createdAt } });
  const characters = [...plainContent];
  for (let length = characters.length; ; length = Math.floor(length * 0.9)) {
    const text = textOf(cut(plainContent, length));
    if (Buffer.byteLength(text) <= MAX_PAYLOAD_BYTES || length === 0) return text;
  }
}

/** Returns a text of at most so many characters; a cut one ends with an ellipsis. */
function cut(text: string, maxLength: number): string {
  const characters = [...text];
  return characters.length <= maxLength ? text : `${characters.slice(0, Math.max(0, maxLength - 1)).join('')}…`;
}
