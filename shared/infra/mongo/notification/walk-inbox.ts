import type { Document, Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { type NotificationRow, notifications } from './collections.ts';
import { LOOK_OPTIONS, visiblePlace } from './look.ts';

/** Rows that one step of a walk looks for, by an index that holds all that it needs of them. */
const LOOK = 5_000;
/** Of these, changed by one command: short enough to hold nobody up, and to be held one by one against a list of ids. */
const CHUNK = 100;

export interface Walk {
  userId: string;
  /** Beside the user's own and visible rows. */
  only: Filter<NotificationRow>;
  /** An update pipeline that leaves alone what somebody else has changed meanwhile; a changed row falls out of `only` or of its place. */
  change: Document[];
}

/**
 * Changes every row of an inbox, a chunk at a time, from the newest that is there at the beginning back to the oldest: rows that
 * arrive meanwhile are newer than the first chunk and do not keep it going. Gives how many it changed; a walk that is cut short has
 * changed a part, and a second one does the rest.
 */
export async function walkInbox(mongo: Mongo, walk: Walk, signal: AbortSignal): Promise<number> {
  const place = await visiblePlace(mongo);
  let changed = 0;
  for (let createdAt = {}; ; ) {
    const rows = await notifications(mongo)
      .find(
        { userId: walk.userId, place, ...walk.only, ...createdAt },
        {
          projection: { createdAt: 1 },
          sort: { createdAt: -1, _id: -1 },
          limit: LOOK,
          ...LOOK_OPTIONS,
        },
      )
      .toArray();
    const oldest = rows.at(-1);
    if (oldest === undefined) return changed;
    for (let at = 0; at < rows.length; at += CHUNK) {
      signal.throwIfAborted();
      const ids = rows.slice(at, at + CHUNK).map(({ _id }) => _id);
      const updated = await notifications(mongo).updateMany({ _id: { $in: ids } }, walk.change, {
        maxTimeMS: QUERY_LIMIT_MS,
      });
      changed += updated.modifiedCount;
    }
    createdAt = { createdAt: { $lte: oldest.createdAt } };
  }
}
