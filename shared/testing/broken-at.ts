import { type ClientSession, MongoNetworkError } from 'mongodb';
import type { Mongo } from '../infra/mongo/connect.ts';
import { type Method, tappedDb } from './tapped-db.ts';

const WRITES = ['insertOne', 'insertMany', 'updateOne', 'updateMany', 'deleteOne', 'findOneAndUpdate'];

/**
 * The same MongoDB as a process sees it that dies at its `point`-th write or commit (1 = the first): `before` it is sent, or `after`
 * the server has made it and before anybody hears of that. Nothing gets through from then on. `reached` says whether it came so far.
 */
export function brokenAt(
  mongo: Mongo,
  point: number,
  when: 'before' | 'after',
): { mongo: Mongo; reached: () => boolean } {
  let passed = 0;
  const dying = (send: Method): Method =>
    async function sent(...args: unknown[]): Promise<unknown> {
      passed += 1;
      if (passed < point) return send(...args);
      if (passed === point && when === 'after') await send(...args);
      throw new MongoNetworkError('the process is dead');
    };
  const db = tappedDb(mongo, (method, name) => (WRITES.includes(name) ? dying(method) : undefined));
  const client = new Proxy(mongo.client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name !== 'withSession') return typeof value === 'function' ? value.bind(target) : value;
      return (work: (session: ClientSession) => Promise<unknown>) =>
        target.withSession((session) => {
          const commit = session.commitTransaction.bind(session) as () => Promise<unknown>;
          session.commitTransaction = dying(commit) as ClientSession['commitTransaction'];
          return work(session);
        });
    },
  });
  return { mongo: { ...mongo, db, client }, reached: () => passed >= point };
}
