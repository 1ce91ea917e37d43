import type { ClientSession } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { erasedAmong, findTombstone, newPseudonym } from '#infra/mongo/erased-persons.ts';
import { NOTIFICATION_FIELDS } from '#infra/mongo/schema/personal-fields/notification.ts';
import { linksBy } from '#infra/mongo/schema/personal-fields.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { eraseLink, type Walk } from './walk.ts';

const LINKS = linksBy('person').filter(({ collection }) => Object.hasOwn(NOTIFICATION_FIELDS, collection));

/**
 * Erases what a front door has just stored about persons whose erasure began after the front door read the tombstones of these ids and
 * found those in `known`. Returns the ids of these persons.
 *
 * Call it after the commit of the rows that name these ids. The tombstone is stored before the erasure searches for rows: if this read
 * does not find it, the search finds the rows. A read in the transaction of the rows would prove nothing, because the transaction and the
 * erasure write different documents and neither sees the other.
 */
export async function eraseStoredMeanwhile(
  mongo: Mongo,
  ids: readonly string[],
  { known = new Set(), now, session, read = (asked) => erasedAmong(mongo, asked, session) }: StoredMeanwhile,
): Promise<ReadonlySet<string>> {
  const erased = await read(ids.filter((id) => !known.has(id)));
  for (const id of erased) {
    const walk = await walkOf(mongo, id, now);
    for (const link of LINKS) await eraseLink(walk, link, [id]);
  }
  return erased;
}

interface StoredMeanwhile {
  known?: ReadonlySet<string>;
  now: number;
  session?: ClientSession;
  /** Reads the tombstones, after it is called. Default: by a command of its own, in the session. */
  read?: (ids: readonly string[]) => Promise<ReadonlySet<string>>;
}

/**
 * Does the same for the users of notifications, and erases what a worker has just stored about these notifications. Their own rows may be
 * gone, so that nothing else leads from the person to what was stored.
 */
export async function eraseBelowMeanwhile(
  mongo: Mongo,
  rows: readonly Pick<Notification, '_id' | 'userId'>[],
  { now, session }: { now: number; session: ClientSession },
): Promise<void> {
  const users = rows.map(({ userId }) => userId);
  for (const id of await eraseStoredMeanwhile(mongo, users, { now, session })) {
    const walk = await walkOf(mongo, id, now);
    const ids = rows.flatMap(({ _id, userId }) => (userId === id ? [_id] : []));
    for (const link of linksBy('notification')) await eraseLink(walk, link, ids);
  }
}

/** Returns the walk of an erasure whose receipt may be complete, so that its rows are not counted. */
async function walkOf(mongo: Mongo, id: string, now: number): Promise<Walk> {
  const pseudonym = (await findTombstone(mongo, id))?.pseudonym ?? newPseudonym();
  return { mongo, keys: { id, pseudonym }, now: new Date(now), waiting: new Map(), count: async () => undefined };
}
