import type { Mongo } from '#infra/mongo/connect.ts';
import { notifications } from './collections.ts';
import { unreadSelection } from './inbox-filter.ts';
import { LOOK_OPTIONS, look } from './look.ts';

/** Unread notifications of one user, from an index alone. */
export function countUnread(mongo: Mongo, userId: string): Promise<number> {
  return look(mongo, (place) => {
    const { filter } = unreadSelection(userId, place);
    return notifications(mongo).countDocuments(filter, LOOK_OPTIONS);
  });
}
