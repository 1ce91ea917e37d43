import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { notifications } from './collections.ts';
import { isVisible } from './look.ts';

/** A row that somebody may see: neither deleted nor staged; null otherwise. */
export async function findNotification(mongo: Mongo, id: string): Promise<Notification | null> {
  for (let staged: string | null = null; ; ) {
    const row = await notifications(mongo).findOne({ _id: id }, { maxTimeMS: QUERY_LIMIT_MS });
    if (row === null) return null;
    if (await isVisible(mongo, row)) return row;
    // Its fan-out may have been published, settled and forgotten between the two looks: then it stands elsewhere by now.
    if (row.place === 'DELETED' || row.place === staged) return null;
    staged = row.place;
  }
}
