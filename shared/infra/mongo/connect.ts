import { type Db, MongoClient, type MongoClientOptions } from 'mongodb';

/** A process's one door to MongoDB. Closing it ends every socket. */
export interface Mongo {
  client: MongoClient;
  db: Db;
  close(): Promise<void>;
}

/**
 * A read that takes longer than this is a missing index or a sick server; it ends as an outage (ms). So does a write:
 * one that meets the open transaction of a killed process would wait for as long as MongoDB keeps that open.
 */
export const QUERY_LIMIT_MS = 5_000;

const OPTIONS: MongoClientOptions = {
  // An acknowledged answer must survive the loss of any one server and of power: majority and journal.
  writeConcern: { w: 'majority', journal: true },
  readConcern: { level: 'majority' },
  retryWrites: true,
  retryReads: true,
  ignoreUndefined: true,
  serverSelectionTimeoutMS: 3_000,
  connectTimeoutMS: 3_000,
  // A hung server must not hold a request for ever. Longer than any command here may take.
  socketTimeoutMS: 20_000,
  heartbeatFrequencyMS: 2_000,
  maxPoolSize: 50,
  waitQueueTimeoutMS: 5_000,
};

/**
 * Opens the client without waiting for a server: a process starts, answers `/healthz` and reports unready until
 * MongoDB comes. `database` wins over the URL's path.
 */
export function openMongo(options: { url: string; database: string; appName: string }): Mongo {
  const client = new MongoClient(options.url, { ...OPTIONS, appName: options.appName });
  return { client, db: client.db(options.database), close: () => client.close() };
}

/** Rejects when MongoDB does not answer within `limitMs`; used by `/readyz`. */
export async function pingMongo(mongo: Mongo, limitMs: number): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(late.reject, limitMs, new Error(`MongoDB did not answer within ${limitMs} ms`));
  try {
    // The driver has no bound of its own for one command: its `timeoutMS` has no effect.
    await Promise.race([mongo.db.command({ ping: 1 }), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
