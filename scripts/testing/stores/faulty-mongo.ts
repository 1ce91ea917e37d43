import { MongoNetworkError } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type Method, tappedCommits, tappedDb } from './tapped-db.ts';

/** The calls of one collection method that fail. */
export interface FaultPlan {
  method: string;
  /** `lost`: the server executed the command and the reply is lost. `refused`: the command never reached the server. */
  how: 'lost' | 'refused';
  times: number;
  /** Selects the calls that fail; default all. */
  when?: (args: readonly unknown[]) => boolean;
  /** Runs before the caller receives the fault. */
  meanwhile?: () => Promise<void>;
}

/** Selects calls of updateOne with a pipeline: in a mailbox, those that settle a command or renew its lease. */
export const settles = ([, update]: readonly unknown[]): boolean => Array.isArray(update);

/** Returns the same MongoDB behind a connection that fails as planned, with the error of a driver whose own retries are exhausted. */
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

/** Returns the same MongoDB. After `loseNext`, the next commit takes effect and its reply is lost. */
export function losingCommit(mongo: Mongo): { mongo: Mongo; loseNext: () => void } {
  let loses = false;
  const losing = (commit: Method) => async () => {
    await commit();
    if (!loses) return;
    loses = false;
    throw new MongoNetworkError('the connection broke');
  };
  return {
    mongo: { ...mongo, client: tappedCommits(mongo, losing) },
    loseNext() {
      loses = true;
    },
  };
}

type Find = (filter: object, options: { session?: unknown }) => AsyncIterable<unknown>;

/**
 * Returns a MongoDB that runs `meanwhile` once: after the first search of the collection outside a transaction whose filter is `wanted`,
 * and before the next statement. `times` counts its runs.
 */
export function afterSearch(
  mongo: Mongo,
  collection: string,
  wanted: (filter: object) => boolean,
  meanwhile: () => Promise<unknown>,
): { mongo: Mongo; times: () => number } {
  let times = 0;
  const db = tappedDb(mongo, (method, name, searched) => {
    if (name !== 'find' || searched !== collection) return undefined;
    const find = method as unknown as Find;
    const tapped: Find = (filter, options) => {
      const cursor = find(filter, options);
      if (!wanted(filter) || options.session !== undefined || times > 0) return cursor;
      times += 1;
      return (async function* () {
        yield* cursor;
        await meanwhile();
      })();
    };
    return tapped as unknown as Method;
  });
  return { mongo: { ...mongo, db }, times: () => times };
}
