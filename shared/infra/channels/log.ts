import type { Log } from '#infra/log/log.ts';
import type { Adapter } from './channel.ts';

/** For development: one line per delivery, without its content and without the user. */
export function logAdapter(log: Log): Adapter {
  return {
    channel: 'log',
    provider: 'log',
    async send({ deliveryJobId, notification }, { signal }) {
      signal.throwIfAborted();
      log.info({ deliveryJobId, notificationId: notification.id, type: notification.type }, 'notification delivered');
      return { providerId: null };
    },
  };
}
