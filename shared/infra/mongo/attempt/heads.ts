import { LRUCache } from 'lru-cache';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { attempts } from './collections.ts';

/** What never changes of an attempt and must be known before a write: whose it is, and on which paper. */
export type AttemptHead = Pick<Attempt, '_id' | 'studentId' | 'paperId'>;

export interface Heads {
  /** Null: no such attempt. That answer is not remembered: another process may be creating it now. */
  find(id: string): Promise<AttemptHead | null>;
  remember(head: AttemptHead): void;
}

/** Keeps the newest used heads in memory, so that a warm save reads nothing first. */
export function openHeads(mongo: Mongo, max: number): Heads {
  const cache = new LRUCache<string, AttemptHead>({ max });
  const remember = ({ _id, studentId, paperId }: AttemptHead) => void cache.set(_id, { _id, studentId, paperId });
  return {
    remember,
    async find(id) {
      const cached = cache.get(id);
      if (cached !== undefined) return cached;
      const read = (await attempts(mongo).findOne(
        { _id: id },
        { projection: { studentId: 1, paperId: 1 } },
      )) as AttemptHead | null;
      if (read !== null) remember(read);
      return read;
    },
  };
}
