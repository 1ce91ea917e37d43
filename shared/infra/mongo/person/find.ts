import type { ClientSession, Document } from 'mongodb';
import { accounts } from '#infra/mongo/auth/collections.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type CollectionLink, type CollectionName, linksBy } from '#infra/mongo/schema/personal-fields.ts';
import { shardKeyOf } from '#infra/mongo/schema/shard-keys.ts';

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

/** The `_id` of a row and the fields that decide on which shard it is. */
export interface Located extends Readonly<Record<string, unknown>> {
  readonly _id: string;
}

/** Yields where the rows that match are, in portions of `atOnce`. */
export async function* rowsIn(
  mongo: Mongo,
  collection: CollectionName,
  filter: Document,
  atOnce: number,
  session?: ClientSession,
): AsyncGenerator<Located[]> {
  const projection = Object.fromEntries(['_id', ...shardKeyOf(collection)].map((field) => [field, 1]));
  const options = { projection, batchSize: Math.max(atOnce, 2), ...(session === undefined ? {} : { session }) };
  let rows: Located[] = [];
  for await (const row of mongo.db.collection<Located>(collection).find(filter, options)) {
    rows.push(row);
    if (rows.length < atOnce) continue;
    yield rows;
    rows = [];
  }
  if (rows.length > 0) yield rows;
}

/** Yields the ids of the rows that match, in portions of `atOnce`. */
export async function* idsIn(
  mongo: Mongo,
  collection: CollectionName,
  filter: Document,
  atOnce: number,
): AsyncGenerator<string[]> {
  for await (const rows of rowsIn(mongo, collection, filter, atOnce)) yield rows.map(({ _id }) => _id);
}

/** Returns the filter of these rows. It lists the values of the shard key, so that only their shards are called. */
export function filterOf(collection: CollectionName, rows: readonly Located[]): Document {
  const fields = new Set(['_id', ...shardKeyOf(collection)]);
  return Object.fromEntries([...fields].map((field) => [field, { $in: [...new Set(rows.map((row) => row[field]))] }]));
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
