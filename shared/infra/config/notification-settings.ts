import { CHANNELS, type Channel } from '#shared/notification/delivery.ts';
import { SENDERS, type Sender } from '#shared/notification/event.ts';
import { firstToken } from './first-token.ts';
import type { VariableReader } from './variable-reader.ts';
import type { NamesOf } from './variables.ts';

export interface NotificationSettings {
  /** What each sender proves itself with, here as receiver and, for the attempt service, as caller. */
  senderTokens: Readonly<Record<Sender, string | undefined>>;
  channels: ReadonlySet<Channel>;
  /** Present where the `webhook` channel is on. */
  webhook: { url: string; secret: string; timeoutMs: number } | null;
  delivery: { maxAttempts: number; retryBaseMs: number; leaseMs: number };
}

const TOKEN_OF = {
  'admin-service': 'NOTIFICATION_TOKEN_ADMIN_SERVICE',
  'attempt-service': 'NOTIFICATION_TOKEN_ATTEMPT_SERVICE',
  'bff-service': 'NOTIFICATION_TOKEN_BFF_SERVICE',
  'classroom-service': 'NOTIFICATION_TOKEN_CLASSROOM_SERVICE',
  'exam-service': 'NOTIFICATION_TOKEN_EXAM_SERVICE',
} as const satisfies Record<Sender, NamesOf<'token'>>;

export function readSenderTokens(from: VariableReader): Record<Sender, string | undefined> {
  const tokenOf = (sender: Sender) =>
    firstToken(from, [TOKEN_OF[sender], 'NOTIFICATION_INTERNAL_SERVICE_TOKEN', 'INTERNAL_SERVICE_TOKEN']);
  return Object.fromEntries(SENDERS.map((sender) => [sender, tokenOf(sender)])) as Record<Sender, string | undefined>;
}

/** `needsToken`: a production front door must not open without a token for every sender. */
export function readNotification(
  from: VariableReader,
  senderTokens: NotificationSettings['senderTokens'],
  needsToken: boolean,
): NotificationSettings {
  const without = SENDERS.filter((sender) => senderTokens[sender] === undefined);
  if (needsToken && without.length > 0) {
    from.faults.push(
      `NOTIFICATION_INTERNAL_SERVICE_TOKEN: no token for ${without.join(', ')}, wanted this one, INTERNAL_SERVICE_TOKEN or one of their own`,
    );
  }
  const channels = from.list('NOTIFICATION_CHANNELS', CHANNELS);
  return {
    senderTokens,
    channels,
    webhook: readWebhook(from, channels.has('webhook')),
    delivery: {
      maxAttempts: from.integer('NOTIFICATION_DELIVERY_MAX_ATTEMPTS'),
      retryBaseMs: from.integer('NOTIFICATION_DELIVERY_RETRY_BASE_MS'),
      leaseMs: from.integer('NOTIFICATION_DELIVERY_LEASE_MS'),
    },
  };
}

function readWebhook(from: VariableReader, isOn: boolean): NotificationSettings['webhook'] {
  const url = from.webhook('NOTIFICATION_WEBHOOK_URL');
  const secret = from.token('NOTIFICATION_WEBHOOK_SECRET');
  const timeoutMs = from.integer('NOTIFICATION_WEBHOOK_TIMEOUT_MS');
  if (!isOn) return null;
  if (url === null) from.faults.push('NOTIFICATION_WEBHOOK_URL: not set, wanted by the webhook channel');
  if (secret === undefined) from.faults.push('NOTIFICATION_WEBHOOK_SECRET: not set, wanted by the webhook channel');
  return { url: url ?? '', secret: secret ?? '', timeoutMs };
}
