import type { Document } from 'mongodb';
import { accounts } from '#infra/mongo/auth/collections.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type CollectionLink, type CollectionName, linksBy } from '#infra/mongo/schema/personal-fields.ts';

/** A person, with the values that lead to rows. */
export interface Person {
  id: string;
  /** throttleKey of the account's e-mail; null without an account. */
  emailDigest: string | null;
}

/** Returns the person of an id. The id may belong to an account or to a user of another identity service. */
export async function findPerson(mongo: Mongo, id: string): Promise<Person> {
  const account = await accounts(mongo).findOne({ _id: id }, { projection: { email: 1 } });
  return { id, emailDigest: account === null ? null : throttleKey(account.email) };
}

/** Ids in one query of child rows. */
const AT_ONCE = 200;

/** Yields the values by which this kind of link finds rows, in bounded portions. */
export async function* valuesOf(
  mongo: Mongo,
  { id, emailDigest }: Person,
  by: CollectionLink['by'],
): AsyncGenerator<string[]> {
  switch (by) {
    case 'person':
      yield [id];
      return;
    case 'email':
      if (emailDigest !== null) yield [emailDigest];
      return;
    case 'attempt':
      yield* idsIn(mongo, 'attempts', { studentId: id }, AT_ONCE);
      return;
    case 'notification':
      yield* idsIn(mongo, 'notifications', { userId: id }, AT_ONCE);
  }
}

/** Yields the ids of the rows that match, in portions of `atOnce`. */
export async function* idsIn(
  mongo: Mongo,
  collection: CollectionName,
  filter: Document,
  atOnce: number,
): AsyncGenerator<string[]> {
  const options = { projection: { _id: 1 }, batchSize: Math.max(atOnce, 2) } as const;
  let ids: string[] = [];
  for await (const { _id } of mongo.db.collection<{ _id: string }>(collection).find(filter, options)) {
    ids.push(_id);
    if (ids.length < atOnce) continue;
    yield ids;
    ids = [];
  }
  if (ids.length > 0) yield ids;
}

/** Returns the filter of the rows behind a link. One value is an equality, so that every server uses the index. */
export function rowsBehind({ field }: Pick<CollectionLink, 'field'>, values: readonly string[]): Document {
  return { [field]: values.length === 1 ? values[0] : { $in: values } };
}

/** Returns the filter of the rows behind a link that no earlier link of the collection leads to. */
export function newRowsBehind(link: CollectionLink, values: readonly string[], { id }: Person): Document {
  return { ...rowsBehind(link, values), ...Object.fromEntries(link.earlier.map((field) => [field, { $ne: id }])) };
}

/** Returns the number of rows about a person, by collection; collections without any are absent. */
export async function countRows(mongo: Mongo, person: Person): Promise<Map<CollectionName, number>> {
  const counts = new Map<CollectionName, number>();
  for (const link of linksBy('person', 'email', 'attempt', 'notification')) {
    if (link.isRepeated) continue;
    for await (const values of valuesOf(mongo, person, link.by)) {
      const rows = await mongo.db.collection(link.collection).countDocuments(newRowsBehind(link, values, person));
      if (rows > 0) counts.set(link.collection, (counts.get(link.collection) ?? 0) + rows);
    }
  }
  return counts;
}
