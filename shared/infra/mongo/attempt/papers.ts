import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { BSON, type ClientSession } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import type { Paper } from '#shared/attempt/question.ts';
import { papers } from './collections.ts';

/** Stores papers under their hash and caches the most recently used ones in memory. */
export interface Papers {
  /**
   * Stores the paper if it is new, and returns its id. The paper must be durable before the attempt that names it is inserted.
   */
  store(paper: Paper): Promise<string>;
  /**
   * Returns the paper. A read in a `session` shows every paper that the session has seen an attempt of. Throws if it does not exist: the
   * paper of an attempt is never deleted.
   */
  find(id: string, session?: ClientSession): Promise<Paper>;
}

/** `cacheBytes` bounds the memory of cached papers, by the length of their JSON. */
export function openPapers(mongo: Mongo, cacheBytes: number): Papers {
  const cache = new LRUCache<string, Paper>({
    maxSize: cacheBytes,
    sizeCalculation: (paper) => JSON.stringify(paper).length + 1,
  });
  const loading = new Map<string, Promise<Paper>>();

  async function load(id: string, session?: ClientSession): Promise<Paper> {
    const stored = await papers(mongo).findOne({ _id: id }, readIn(session));
    if (stored === null) throw new Error(`paper ${id} is missing`);
    const { _id, ...paper } = stored;
    cache.set(id, paper);
    return paper;
  }

  return {
    async store(paper) {
      const id = paperIdOf(paper);
      if (cache.get(id) !== undefined) return id;
      try {
        await papers(mongo).insertOne({ _id: id, ...paper });
      } catch (error) {
        if (!isDuplicateKey(error)) throw error;
      }
      cache.set(id, paper);
      return id;
    },
    async find(id, session) {
      const cached = cache.get(id);
      if (cached !== undefined) return cached;
      // Concurrent reads share one query: a thousand first saves of one exam read its paper once.
      const already = loading.get(id);
      // Another caller has seen less than this session, and may not find the paper yet.
      if (already !== undefined) return session === undefined ? already : already.catch(() => load(id, session));
      const read = load(id, session).finally(() => loading.delete(id));
      loading.set(id, read);
      return read;
    },
  };
}

function paperIdOf(paper: Paper): string {
  return createHash('sha256').update(JSON.stringify(paper)).digest('hex');
}

/** Returns the size of the paper in MongoDB, in bytes of BSON. */
export function paperBytes(paper: Paper): number {
  return BSON.calculateObjectSize(paper);
}
