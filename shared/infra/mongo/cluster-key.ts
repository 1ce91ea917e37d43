import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type KeyedHash, openKeyedHash } from '#infra/net/keyed-hash.ts';
import { type Mongo, QUERY_LIMIT_MS } from './connect.ts';
import { isDuplicateKey } from './faults.ts';

/** A secret of the cluster that no configuration has: every process reads it, and its loss would make tombstones unreadable. */
export interface ClusterKey {
  _id: 'persons';
  key: string;
  createdAt: Date;
}

export const CLUSTER_KEYS = 'cluster_keys';

const KEY_BYTES = 32;
const ID = 'persons';

const opened = new WeakMap<Mongo, Promise<KeyedHash>>();

/**
 * Returns the hash of persons in logs, audit and tombstones, equal in every process of the cluster. A reader of these cannot find an id by
 * trial; a reader of the whole database can. The key is never changed, because a tombstone is for ever. The first caller creates it.
 */
export function clusterHash(mongo: Mongo): Promise<KeyedHash> {
  const known = opened.get(mongo);
  if (known !== undefined) return known;
  const hash = storedKey(mongo).then(openKeyedHash);
  opened.set(mongo, hash);
  hash.catch(() => opened.delete(mongo));
  return hash;
}

async function storedKey(mongo: Mongo): Promise<string> {
  const keys = mongo.db.collection<ClusterKey>(CLUSTER_KEYS);
  const find = () => keys.findOne({ _id: ID }, { maxTimeMS: QUERY_LIMIT_MS });
  const found = await find();
  if (found !== null) return found.key;
  const row = { key: randomBytes(KEY_BYTES).toString('base64url'), createdAt: new Date() };
  const create = () => keys.updateOne({ _id: ID }, { $setOnInsert: row }, { upsert: true });
  // If two processes create the key at once, one changes nothing. The write of both waits until the stored key survives.
  await create().catch((error: unknown) => {
    if (isDuplicateKey(error)) return create();
    throw error;
  });
  const stored = await find();
  if (stored === null) throw new Error('the key of the cluster was not stored');
  return stored.key;
}

/** Hashes for the log, which cannot wait for the key. */
export interface LogHashes {
  /** Reads the key. */
  read(): Promise<void>;
  /** Returns the hash of a value, or undefined before the key is read. */
  of: (...value: Parameters<KeyedHash>) => string | undefined;
}

/** Hashes that a process remembers: each costs more than the rest of a log line. */
const REMEMBERED = 10_000;

/** Opens the hashes for the log of a process. */
export function openLogHashes(mongo: Mongo): LogHashes {
  const remembered = new LRUCache<string, string>({ max: REMEMBERED });
  let hash: KeyedHash | undefined;
  return {
    async read() {
      hash = await clusterHash(mongo);
    },
    of(kind, text) {
      const key = `${kind} ${text}`;
      const known = remembered.get(key);
      if (known !== undefined || hash === undefined) return known;
      const made = hash(kind, text);
      remembered.set(key, made);
      return made;
    },
  };
}
