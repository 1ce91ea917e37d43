import type { Reader } from '#infra/config/readers.ts';
import { guarded, inGroup, integer, list, text, textOf, word } from '#infra/config/rows.ts';
import { CHANNELS } from '#shared/notification/delivery.ts';

/** Only the worker that sends over a channel has its secret. */
const SENDER: readonly Reader[] = ['delivery'];
/** The front door verifies the links that `delivery` signs, and shows pages the public part of its key. */
const SENDER_AND_DOOR: readonly Reader[] = ['web:notification', 'delivery'];

/** The notification service and its deliveries. Its tokens are among the neighbours, because senders and receiver read the same ones. */
export const NOTIFICATION = inGroup('Notifications', {
  NOTIFICATION_CHANNELS: list(
    'notification.channels',
    CHANNELS,
    '',
    'Channels over which notifications are delivered besides the inbox, comma-separated. Unset = inbox only.',
    { mayBeEmpty: true },
  ),
  NOTIFICATION_WEBHOOK_URL: guarded(
    'webhook',
    SENDER,
    'Receiver of the `webhook` channel: https, or http to a loopback address. Required by that channel.',
  ),
  NOTIFICATION_WEBHOOK_SECRET: guarded(
    'webhook-secret',
    SENDER,
    'Signs every delivery of the `webhook` channel: `whsec_` and the base64 of a key, in production of 24 bytes or more. Required by that channel.',
  ),
  NOTIFICATION_WEBHOOK_SECRET_PREVIOUS: guarded(
    'webhook-secret',
    SENDER,
    'The secret before, while receivers still verify with it: it signs beside `NOTIFICATION_WEBHOOK_SECRET`. Unset = one signature.',
  ),
  NOTIFICATION_WEBHOOK_TIMEOUT_MS: integer(
    null,
    10_000,
    [1, 25_000],
    'Time limit of one call to the webhook receiver; keep it well below the lease of a delivery.',
  ),
  NOTIFICATION_EMAIL_HOST: text(
    null,
    null,
    'Mail server of the `email` channel. Required by that channel, as is `PROFILE_SERVICE_URL`.',
  ),
  NOTIFICATION_EMAIL_PORT: integer(
    null,
    587,
    [1, 65_535],
    'Port of the mail server: usually 587 for `starttls` and 465 for `implicit`.',
  ),
  NOTIFICATION_EMAIL_TLS: word(
    null,
    ['starttls', 'implicit', 'none'],
    'starttls',
    '`starttls` requires the upgrade to TLS, `implicit` begins with TLS. `none` is accepted for a loopback address only.',
  ),
  NOTIFICATION_EMAIL_USER: text(
    null,
    null,
    'User of the mail server; set together with its password. Unset = no login.',
  ),
  NOTIFICATION_EMAIL_PASSWORD: guarded('key', SENDER, 'Password of `NOTIFICATION_EMAIL_USER`.'),
  NOTIFICATION_EMAIL_FROM: text(
    null,
    null,
    'Address of the sender, such as `no-reply@school.example`. Required by the `email` channel.',
  ),
  NOTIFICATION_EMAIL_SENDER_NAME: text(
    null,
    'examhall',
    'Name of the sender, in the e-mail too: usually the name of the school.',
  ),
  NOTIFICATION_UNSUBSCRIBE_URL: guarded(
    'webhook',
    SENDER_AND_DOOR,
    'Address from which mail programs reach `/v1/notifications/unsubscribe` of this service. Unset = e-mails have no link that turns them off.',
  ),
  NOTIFICATION_UNSUBSCRIBE_SECRET: guarded(
    'secret',
    SENDER_AND_DOOR,
    'Signs those links, for `web` and `delivery` alike. Required beside the address. A new one ends all earlier links.',
  ),
  NOTIFICATION_WEBPUSH_PRIVATE_KEY: guarded(
    'key',
    SENDER_AND_DOOR,
    'Key of the `webpush` channel (VAPID): 32 bytes of a P-256 private key in base64url. Required by that channel. A new key loses every subscription.',
  ),
  NOTIFICATION_WEBPUSH_SUBJECT: text(
    null,
    null,
    'How operators of push services reach the school: `mailto:` and an address, or an https URL. Required by the `webpush` channel.',
  ),
  NOTIFICATION_WEBPUSH_HOSTS: textOf(
    'hosts',
    'notification.pushHosts',
    'fcm.googleapis.com,*.push.services.mozilla.com,*.push.apple.com,*.notify.windows.com',
    'Hosts of the push services that browsers may name and that are called, comma-separated. `*.` means every name below. For `web` and `delivery` alike.',
  ),
  NOTIFICATION_DELIVERY_MAX_ATTEMPTS: integer(
    'notification.delivery.maxAttempts',
    6,
    [1, 1_000],
    'Delivery attempts before a delivery is dead-lettered.',
  ),
  NOTIFICATION_DELIVERY_RETRY_BASE_MS: integer(
    'notification.delivery.retryBaseMs',
    2_000,
    [1, 600_000],
    'First wait between two delivery attempts; doubles, at most ten minutes, with jitter.',
  ),
  NOTIFICATION_DELIVERY_LEASE_MS: integer(
    'notification.delivery.leaseMs',
    30_000,
    [200, 600_000],
    'Lease of a claimed delivery; renewed while it runs.',
  ),
});
