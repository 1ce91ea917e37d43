import type { Reader } from '#infra/config/readers.ts';
import type { Variable } from '#infra/config/variable.ts';
import { CHANNELS } from '#shared/notification/delivery.ts';

const GROUP = 'Notifications';
/** Only the worker that sends over a channel has its secret. */
const SENDER: readonly Reader[] = ['delivery'];
/** The front door verifies the links that `delivery` signs, and shows pages the public part of its key. */
const SENDER_AND_DOOR: readonly Reader[] = ['web:notification', 'delivery'];

/** The notification service and its deliveries. Its tokens are among the neighbours, because senders and receiver read the same ones. */
export const NOTIFICATION = {
  NOTIFICATION_CHANNELS: {
    group: GROUP,
    kind: 'list',
    default: '',
    words: CHANNELS,
    mayBeEmpty: true,
    description:
      'Channels over which notifications are delivered besides the inbox, comma-separated. Unset = inbox only.',
  },
  NOTIFICATION_WEBHOOK_URL: {
    group: GROUP,
    kind: 'webhook',
    default: null,
    readers: SENDER,
    description: 'Receiver of the `webhook` channel: https, or http to a loopback address. Required by that channel.',
  },
  NOTIFICATION_WEBHOOK_SECRET: {
    group: GROUP,
    kind: 'webhook-secret',
    default: null,
    readers: SENDER,
    description:
      'Signs every delivery of the `webhook` channel: `whsec_` and the base64 of a key, in production of 24 bytes or more. Required by that channel.',
  },
  NOTIFICATION_WEBHOOK_SECRET_PREVIOUS: {
    group: GROUP,
    kind: 'webhook-secret',
    default: null,
    readers: SENDER,
    description:
      'The secret before, while receivers still verify with it: it signs beside `NOTIFICATION_WEBHOOK_SECRET`. Unset = one signature.',
  },
  NOTIFICATION_WEBHOOK_TIMEOUT_MS: {
    group: GROUP,
    kind: 'integer',
    default: 10_000,
    min: 1,
    max: 25_000,
    description: 'Time limit of one call to the webhook receiver; keep it well below the lease of a delivery.',
  },
  NOTIFICATION_EMAIL_HOST: {
    group: GROUP,
    kind: 'text',
    default: null,
    description: 'Mail server of the `email` channel. Required by that channel, as is `PROFILE_SERVICE_URL`.',
  },
  NOTIFICATION_EMAIL_PORT: {
    group: GROUP,
    kind: 'integer',
    default: 587,
    min: 1,
    max: 65_535,
    description: 'Port of the mail server: usually 587 for `starttls` and 465 for `implicit`.',
  },
  NOTIFICATION_EMAIL_TLS: {
    group: GROUP,
    kind: 'word',
    default: 'starttls',
    words: ['starttls', 'implicit', 'none'],
    description:
      '`starttls` requires the upgrade to TLS, `implicit` begins with TLS. `none` is accepted for a loopback address only.',
  },
  NOTIFICATION_EMAIL_USER: {
    group: GROUP,
    kind: 'text',
    default: null,
    description: 'User of the mail server; set together with its password. Unset = no login.',
  },
  NOTIFICATION_EMAIL_PASSWORD: {
    group: GROUP,
    kind: 'key',
    default: null,
    readers: SENDER,
    description: 'Password of `NOTIFICATION_EMAIL_USER`.',
  },
  NOTIFICATION_EMAIL_FROM: {
    group: GROUP,
    kind: 'text',
    default: null,
    description: 'Address of the sender, such as `no-reply@school.example`. Required by the `email` channel.',
  },
  NOTIFICATION_EMAIL_SENDER_NAME: {
    group: GROUP,
    kind: 'text',
    default: 'examhall',
    description: 'Name of the sender, in the e-mail too: usually the name of the school.',
  },
  NOTIFICATION_EMAIL_TIMEOUT_MS: {
    group: GROUP,
    kind: 'integer',
    default: 20_000,
    min: 1,
    max: 25_000,
    description: 'Time limit of one e-mail, from its wait for a connection to the reply of the mail server.',
  },
  NOTIFICATION_UNSUBSCRIBE_URL: {
    group: GROUP,
    kind: 'webhook',
    default: null,
    readers: SENDER_AND_DOOR,
    description:
      'Address from which mail programs reach `/v1/notifications/unsubscribe` of this service. Unset = e-mails have no link that turns them off.',
  },
  NOTIFICATION_UNSUBSCRIBE_SECRET: {
    group: GROUP,
    kind: 'secret',
    default: null,
    readers: SENDER_AND_DOOR,
    description:
      'Signs those links, for `web` and `delivery` alike. Required beside the address. A new one ends all earlier links.',
  },
  NOTIFICATION_WEBPUSH_PRIVATE_KEY: {
    group: GROUP,
    kind: 'key',
    default: null,
    readers: SENDER_AND_DOOR,
    description:
      'Key of the `webpush` channel (VAPID): 32 bytes of a P-256 private key in base64url. Required by that channel. A new key loses every subscription.',
  },
  NOTIFICATION_WEBPUSH_SUBJECT: {
    group: GROUP,
    kind: 'text',
    default: null,
    description:
      'How operators of push services reach the school: `mailto:` and an address, or an https URL. Required by the `webpush` channel.',
  },
  NOTIFICATION_WEBPUSH_HOSTS: {
    group: GROUP,
    kind: 'hosts',
    default: 'fcm.googleapis.com,*.push.services.mozilla.com,*.push.apple.com,*.notify.windows.com',
    description:
      'Hosts of the push services that browsers may name and that are called, comma-separated. `*.` means every name below. For `web` and `delivery` alike.',
  },
  NOTIFICATION_WEBPUSH_TTL_SECONDS: {
    group: GROUP,
    kind: 'integer',
    default: 86_400,
    min: 0,
    max: 2_419_200,
    description: 'Time for which a push service stores a message for a browser that is off.',
  },
  NOTIFICATION_WEBPUSH_TIMEOUT_MS: {
    group: GROUP,
    kind: 'integer',
    default: 10_000,
    min: 1,
    max: 25_000,
    description: 'Time limit of one call to a push service.',
  },
  NOTIFICATION_DELIVERY_MAX_ATTEMPTS: {
    group: GROUP,
    kind: 'integer',
    default: 6,
    min: 1,
    max: 1_000,
    description: 'Delivery attempts before a delivery is dead-lettered.',
  },
  NOTIFICATION_DELIVERY_RETRY_BASE_MS: {
    group: GROUP,
    kind: 'integer',
    default: 2_000,
    min: 1,
    max: 600_000,
    description: 'First wait between two delivery attempts; doubles, at most ten minutes, with jitter.',
  },
  NOTIFICATION_DELIVERY_LEASE_MS: {
    group: GROUP,
    kind: 'integer',
    default: 30_000,
    min: 200,
    max: 600_000,
    description: 'Lease of a claimed delivery; renewed while it runs.',
  },
} as const satisfies Record<string, Variable>;
