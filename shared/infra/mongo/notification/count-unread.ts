import { type Mongo, QUERY_LIMIT_MS } from '../connect.ts';
import { notifications } from './collections.ts';
import { unreadSelection } from './inbox-filter.ts';
import { look } from './look.ts';

/** Unread notifications of one user, from an index alone. */
export function countUnread(mongo: Mongo, userId: string): Promise<number> {
  return look(mongo, (place) => {
    const { filter } = unreadSelection(userId, place);
    return notifications(mongo).countDocuments(filter, { maxTimeMS: QUERY_LIMIT_MS });
  });
}
