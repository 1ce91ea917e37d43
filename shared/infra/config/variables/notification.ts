import type { Variable } from '#infra/config/variable.ts';
import { CHANNELS } from '#shared/notification/delivery.ts';

const GROUP = 'Notifications';

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
    description: 'Receiver of the `webhook` channel: https, or http to a loopback address. Required by that channel.',
  },
  NOTIFICATION_WEBHOOK_SECRET: {
    group: GROUP,
    kind: 'webhook-secret',
    default: null,
    description:
      'Signs every delivery of the `webhook` channel: `whsec_` and the base64 of a key, in production of 24 bytes or more. Required by that channel.',
  },
  NOTIFICATION_WEBHOOK_SECRET_PREVIOUS: {
    group: GROUP,
    kind: 'webhook-secret',
    default: null,
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
