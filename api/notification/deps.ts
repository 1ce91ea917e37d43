import type { Streams } from '#api/http/live-stream.ts';
import type { Identity } from '#api/route.ts';
import type { Neighbour, NotificationSettings } from '#infra/config/settings.ts';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Background } from '#infra/process/background.ts';
import type { ChangeBell } from '#infra/redis/change-bell.ts';
import type { Doorbells } from '#infra/redis/doorbell.ts';
import type { Now } from '#shared/kernel/time.ts';
import type { Channel } from '#shared/notification/delivery.ts';

/** What the notification service's front door works with. */
export interface NotificationDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  doorbells: Pick<Doorbells, 'ring'>;
  senderTokens: NotificationSettings['senderTokens'];
  /** Ways beside the inbox for which every new row gets a delivery job. */
  channels: ReadonlySet<Channel>;
  /** Tries of one delivery. */
  deliveryAttempts: number;
  /** Attempts of any other command. */
  commandAttempts: number;
  /** null: events are told to nobody. */
  audit: Neighbour | null;
  outboundTimeoutMs: number;
  /** For what may fail, be late or be lost. */
  background: Pick<Background, 'run'>;
  /** Something has changed in the inboxes of these users: their live streams look again. Never throws, may be lost. */
  wake: (userIds: readonly string[]) => void;
  /** Tells a live stream of its user's wakes. */
  inboxes: Pick<ChangeBell, 'listen' | 'canHear'>;
  streams: Streams;
  log: Pick<Log, 'debug'>;
}

/** Who asks, on routes whose guards demand an actor. */
interface Caller {
  id: string;
  isAdmin: boolean;
}

export function callerOf({ actor }: Identity): Caller {
  if (actor === undefined) throw new Error('a route without identity guard asked who calls');
  return { id: actor.id, isAdmin: actor.role === 'ADMIN' };
}

/** Whose notifications a call may touch: `own` the caller's, whoever that is; `role` any for an ADMIN, else the caller's. */
export type Scope = 'own' | 'role';

/** The user whose rows alone may be touched; null: anybody's. */
export function ownerIn(scope: Scope, caller: Caller): string | null {
  return scope === 'role' && caller.isAdmin ? null : caller.id;
}

const FIRST_PAGE = 1;
const LIMIT = 20;

/** The page that a query asks for, its bounds already checked by the schema. */
export function pageOf(query: { page?: number; limit?: number }): { page: number; limit: number } {
  return { page: query.page ?? FIRST_PAGE, limit: query.limit ?? LIMIT };
}

/** `data` of a paged list; `total` is that of all pages. */
export function pagedData<Item>(items: Item[], { page, limit }: { page: number; limit: number }, total: number) {
  return { items, page, limit, total, totalPages: Math.ceil(total / limit) };
}
