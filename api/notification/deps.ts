import type { Streams } from '#api/http/live-stream.ts';
import type { Identity } from '#api/route.ts';
import type { NotificationSettings } from '#infra/config/settings.ts';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { IntakeStore } from '#infra/mongo/notification/intake-store.ts';
import type { ChangeFeed } from '#infra/redis/change-feed.ts';
import type { Doorbells } from '#infra/redis/doorbell.ts';
import type { Now } from '#shared/kernel/time.ts';
import type { Channel } from '#shared/notification/delivery.ts';

/** Dependencies of the notification service's front door. */
export interface NotificationDeps {
  mongo: Mongo;
  intake: IntakeStore;
  /** MongoDB's time. */
  now: Now;
  doorbells: Pick<Doorbells, 'ring'>;
  senderTokens: NotificationSettings['senderTokens'];
  /** Channels beside the inbox. Every new row gets a delivery job for each of them. */
  channels: ReadonlySet<Channel>;
  /** Public key for the pages that subscribe to push messages; null without one. */
  pushKey: string | null;
  /** Hosts of push services; a leading `*.` means every name below. */
  pushHosts: readonly string[];
  /** Verifies the links of e-mails; null if e-mails have none. */
  unsubscribeKey: Buffer | null;
  /** Maximum attempts of one delivery. */
  deliveryAttempts: number;
  /** Maximum attempts of any other command. */
  commandAttempts: number;
  /** True if the audit service is configured: it receives a copy of each stored event. */
  isAudited: boolean;
  /** Wakes the live streams of these users after a change in their inboxes. Never throws; a wake may be lost. */
  notifyStreams: (userIds: readonly string[]) => void;
  /** Wakes a live stream when its user's inbox changes. */
  inboxChanges: Pick<ChangeFeed, 'listen' | 'isConnected'>;
  streams: Streams;
  log: Pick<Log, 'debug'>;
}

/** The calling user, on routes whose guards require an actor. */
interface Caller {
  id: string;
  isAdmin: boolean;
}

/** Returns the calling user. @throws if the route has no identity guard */
export function callerOf({ actor }: Identity): Caller {
  if (actor === undefined) throw new Error('route without the identity guard read its caller');
  return { id: actor.id, isAdmin: actor.role === 'ADMIN' };
}

/** Notifications that a call may access. `own`: the caller's, for every role. `role`: all for an ADMIN, otherwise the caller's. */
export type Scope = 'own' | 'role';

/** Returns the only user whose rows the caller may access, or null if it may access all rows. */
export function ownerIn(scope: Scope, caller: Caller): string | null {
  return scope === 'role' && caller.isAdmin ? null : caller.id;
}

const FIRST_PAGE = 1;
const LIMIT = 20;

/** Returns the page of a query, with defaults. The schema has already checked the bounds. */
export function pageOf(query: { page?: number; limit?: number }): { page: number; limit: number } {
  return { page: query.page ?? FIRST_PAGE, limit: query.limit ?? LIMIT };
}

/** Returns the `data` of a paged list; `total` counts the items of all pages. */
export function pagedData<Item>(items: Item[], { page, limit }: { page: number; limit: number }, total: number) {
  return { items, page, limit, total, totalPages: Math.ceil(total / limit) };
}
