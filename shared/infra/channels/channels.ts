import type { Neighbours, NotificationSettings } from '#infra/config/settings.ts';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { deleteSubscription, subscriptionsOf } from '#infra/mongo/notification/push-subscriptions.ts';
import { openContacts } from '#infra/neighbours/profile.ts';
import type { Now } from '#shared/kernel/time.ts';
import type { Channel } from '#shared/notification/delivery.ts';
import type { Adapter } from './channel.ts';
import { emailAdapter } from './email.ts';
import { webhookAdapter } from './webhook.ts';
import { webPushAdapter } from './webpush.ts';

type ChannelSettings = Pick<
  NotificationSettings,
  'channels' | 'webhook' | 'email' | 'webpush' | 'pushHosts' | 'unsubscribe'
>;

interface ChannelDeps {
  mongo: Mongo;
  config: { neighbours: Pick<Neighbours, 'profile'> };
  log: Log;
  /** MongoDB's time in Unix milliseconds. */
  now: Now;
}

/** The only place where adapters are registered: one constructor for each channel. */
const MAKERS: Readonly<Record<Channel, (settings: ChannelSettings, deps: ChannelDeps) => Adapter>> = {
  log: (_settings, { log }) => logAdapter(log),
  webhook({ webhook }, { now }) {
    if (webhook === null) throw new Error('the webhook channel is on without its settings');
    return webhookAdapter({ ...webhook, now });
  },
  email({ email, unsubscribe }, { config, now }) {
    const { profile } = config.neighbours;
    if (email === null || profile === null) throw new Error('the email channel is on without its settings');
    return emailAdapter(email, { readContact: openContacts(profile, now), now, unsubscribe });
  },
  webpush({ webpush, pushHosts }, { mongo, now }) {
    if (webpush === null) throw new Error('the webpush channel is on without its settings');
    return webPushAdapter(webpush, {
      now,
      hosts: pushHosts,
      subscriptionsOf: (userId) => subscriptionsOf(mongo, userId),
      deleteSubscription: (userId, id) => deleteSubscription(mongo, userId, id),
    });
  },
};

/** Returns an adapter for each configured channel; by default no channel is configured. */
export function openChannels(settings: ChannelSettings, deps: ChannelDeps): ReadonlyMap<Channel, Adapter> {
  return new Map([...settings.channels].map((channel) => [channel, MAKERS[channel](settings, deps)]));
}

/** Returns an adapter for development. It logs one line per delivery, without its content and without the user. */
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
