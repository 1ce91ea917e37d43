import { type ClientSession, MongoNetworkError } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type Method, tappedDb } from './tapped-db.ts';

/** Names of collection methods, in the order in which they must fail. */
export interface FaultPlan {
  method: string;
  /** `lost`: the command reached the server and its reply did not come back. `refused`: it never got there. */
  how: 'lost' | 'refused';
  times: number;
  /** Which calls of the method; absent: all. */
  when?: (args: readonly unknown[]) => boolean;
  /** What goes on elsewhere before the caller learns of the fault. */
  meanwhile?: () => Promise<void>;
}

/** Calls of updateOne that settle a command: of the writes to a mailbox, they and the renewals alone are pipelines. */
export const settles = ([, update]: readonly unknown[]): boolean => Array.isArray(update);

/** The same MongoDB behind a connection that breaks as planned: what the driver throws when its own retries are spent. */
export function faultyMongo(mongo: Mongo, plan: FaultPlan): { mongo: Mongo; left: () => number } {
  let left = plan.times;
  const breakDown = (method: Method): Method =>
    async function faulty(...args: unknown[]): Promise<unknown> {
      if (left === 0 || plan.when?.(args) === false) return method(...args);
      left -= 1;
      if (plan.how === 'lost') await method(...args);
      await plan.meanwhile?.();
      throw new MongoNetworkError('the connection broke');
    };
  const db = tappedDb(mongo, (method, name) => (name === plan.method ? breakDown(method) : undefined));
  return { mongo: { ...mongo, db }, left: () => left };
}

/** The same MongoDB, of which the reply to the next commit does not come back once told so: what it wrote is there. */
export function losingCommit(mongo: Mongo): { mongo: Mongo; loseNext: () => void } {
  let loses = false;
  function losing(session: ClientSession): ClientSession {
    const commit = session.commitTransaction.bind(session);
    session.commitTransaction = async () => {
      await commit();
      if (!loses) return;
      loses = false;
      throw new MongoNetworkError('the connection broke');
    };
    return session;
  }
  const client = new Proxy(mongo.client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name !== 'withSession') return typeof value === 'function' ? value.bind(target) : value;
      return (work: (session: ClientSession) => Promise<unknown>) =>
        target.withSession((session) => work(losing(session)));
    },
  });
  return {
    mongo: { ...mongo, client },
    loseNext() {
      loses = true;
    },
  };
}
