import type { Variable } from '#infra/config/variable.ts';
import { CHANNELS } from '#shared/notification/delivery.ts';

const GROUP = 'Notifications';

/** The notification service and its deliveries. Its tokens stand among the neighbours: senders and receiver read the same. */
export const NOTIFICATION = {
  NOTIFICATION_CHANNELS: {
    group: GROUP,
    kind: 'list',
    default: '',
    words: CHANNELS,
    description: 'Ways beside the inbox on which notifications are delivered, comma-separated. Unset = none.',
  },
  NOTIFICATION_WEBHOOK_URL: {
    group: GROUP,
    kind: 'webhook',
    default: null,
    description: 'Receiver of the `webhook` channel: https, or http to a loopback address. Required by that channel.',
  },
  NOTIFICATION_WEBHOOK_SECRET: {
    group: GROUP,
    kind: 'token',
    default: null,
    description: 'Signs every delivery of the `webhook` channel (HMAC-SHA256). Required by that channel.',
  },
  NOTIFICATION_WEBHOOK_TIMEOUT_MS: {
    group: GROUP,
    kind: 'integer',
    default: 10_000,
    min: 1,
    max: 25_000,
    description: 'Bound of one call to the webhook receiver, well within the lease of a delivery.',
  },
  NOTIFICATION_DELIVERY_MAX_ATTEMPTS: {
    group: GROUP,
    kind: 'integer',
    default: 6,
    min: 1,
    max: 1_000,
    description: 'Tries of one delivery before it is dead-lettered.',
  },
  NOTIFICATION_DELIVERY_RETRY_BASE_MS: {
    group: GROUP,
    kind: 'integer',
    default: 2_000,
    min: 1,
    max: 600_000,
    description: 'First wait between two tries of a delivery; doubles, at most ten minutes, with jitter.',
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
