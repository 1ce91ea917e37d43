import { MongoNetworkError } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type Method, tappedCommits, tappedDb } from '#testing/stores/faulty-mongo.ts';

const WRITES = /^(?:insert|update|delete)(?:One|Many)$|^(?:bulkWrite|findOneAndUpdate)$/;

/**
 * Simulates a process that dies at its `point`-th write, commit or call to another service, counted from 1: `before` sending it, or
 * `after` it took effect but before its reply. Everything later throws too. `live` runs the process; it replaces the global `fetch`, so
 * that only one may run at a time.
 */
export function dyingProcess(mongo: Mongo, point: number, when: 'before' | 'after') {
  let passed = 0;
  const ended = new AbortController();
  const dying = (send: Method, what: string): Method =>
    async function sent(...args: unknown[]): Promise<unknown> {
      passed += 1;
      if (passed < point) return send(...args);
      if (passed === point) {
        diedAt = `${when} ${what}`;
        if (when === 'after') await send(...args);
        ended.abort(new Error('the process is dead'));
      }
      throw new MongoNetworkError('the process is dead');
    };
  let diedAt: string | null = null;
  const db = tappedDb(mongo, (method, name) => (WRITES.test(name) ? dying(method, name) : undefined));
  const client = tappedCommits(mongo, (commit) => dying(commit, 'commit'));
  return {
    mongo: { ...mongo, db, client },
    /** Aborted at the death, for work that repeats a write until its process stops. */
    stop: ended.signal,
    /** Returns the step at which the process died; null if it finished. */
    diedAt: () => diedAt,
    passed: () => passed,
    async live<T>(work: () => Promise<T>): Promise<T> {
      const call = globalThis.fetch;
      globalThis.fetch = dying(call as Method, 'fetch') as typeof fetch;
      try {
        return await work();
      } finally {
        globalThis.fetch = call;
      }
    },
  };
}
