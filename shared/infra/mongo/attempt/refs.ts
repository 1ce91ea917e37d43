import { LRUCache } from 'lru-cache';
import type { ClientSession } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Attempt, AttemptKey, Sitting } from '#shared/attempt/attempt.ts';
import type { IdFacts } from '#shared/attempt/question.ts';
import { attempts, whereKey } from './collections.ts';

/** Returns the state of an attempt and its round, or null. */
export function readSitting(
  mongo: Mongo,
  key: AttemptKey,
  session: ClientSession,
): Promise<(Sitting & Pick<Attempt, 'status'>) | null> {
  return attempts(mongo).findOne(whereKey(key), {
    ...readIn(session),
    projection: { studentId: 1, status: 1, round: 1 },
  });
}

/**
 * Fields of an attempt that a write needs first: its student, its paper, the ids of its questions, and its round. Only an erasure and a
 * reopening change them; a submit of an earlier round changes nothing.
 */
export type AttemptRef = Sitting & IdFacts & Pick<Attempt, 'paperId'>;

export interface AttemptRefs {
  /**
   * Returns the cached ref of this id, which may name another student, or one who was erased since. Otherwise reads the ref by its key, and
   * returns null if this student has no such attempt. null is not cached: another process may be creating the attempt now.
   */
  find(key: AttemptKey): Promise<AttemptRef | null>;
  /** Reads the ref of an attempt whose student the caller does not know, or null. Every shard receives the read. */
  readById(id: string): Promise<AttemptRef | null>;
  add(ref: AttemptRef): void;
}

/** Caches the `max` most recently used refs in memory, so that a warm save needs no read before its write. */
export function openAttemptRefs(mongo: Mongo, max: number): AttemptRefs {
  const cache = new LRUCache<string, AttemptRef>({ max });
  const add = ({ _id, studentId, paperId, seed, round }: AttemptRef) =>
    void cache.set(_id, { _id, studentId, paperId, seed, ...(round === undefined ? {} : { round }) });
  const read = async (filter: Partial<AttemptKey>) => {
    const projection = { studentId: 1, paperId: 1, seed: 1, round: 1 } as const;
    const ref = (await attempts(mongo).findOne(filter, { projection })) as AttemptRef | null;
    if (ref !== null) add(ref);
    return ref;
  };
  return {
    add,
    find: async (key) => cache.get(key._id) ?? read(whereKey(key)),
    readById: (_id) => read({ _id }),
  };
}
