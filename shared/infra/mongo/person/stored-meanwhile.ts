import type { Mongo } from '#infra/mongo/connect.ts';
import { NOTIFICATION_FIELDS } from '#infra/mongo/schema/personal-fields/notification.ts';
import { linksBy } from '#infra/mongo/schema/personal-fields.ts';
import { erasedAmong, findTombstone, newPseudonym } from './erased-persons.ts';
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
  { known = new Set(), now }: { known?: ReadonlySet<string>; now: number },
): Promise<ReadonlySet<string>> {
  const erased = await erasedAmong(
    mongo,
    ids.filter((id) => !known.has(id)),
  );
  for (const id of erased) {
    const pseudonym = (await findTombstone(mongo, id))?.pseudonym ?? newPseudonym();
    // The receipt of the erasure may be complete, so these rows are not counted.
    const count = async () => undefined;
    const walk: Walk = { mongo, keys: { id, pseudonym }, now: new Date(now), waiting: new Map(), count };
    for (const link of LINKS) await eraseLink(walk, link, [id]);
  }
  return erased;
}
