import { type Db, MongoClient, type MongoClientOptions } from 'mongodb';
import { bounded } from '#infra/process/background.ts';

/** A process's one door to MongoDB. Closing it ends every socket. */
export interface Mongo {
  client: MongoClient;
  db: Db;
  close(): Promise<void>;
}

export interface MongoPlace {
  url: string;
  /** Wins over the URL's path. */
  database: string;
  /** By which the server's own log names this process. */
  appName: string;
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
  // What is graded and answered was just written: a secondary may not know it yet.
  readPreference: 'primary',
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
 * MongoDB comes. Once a first command has failed for want of a server, only `client.connect()` dials again; see
 * `until-usable.ts`.
 */
export function openMongo(place: MongoPlace): Mongo {
  return openWith(OPTIONS, place);
}

/**
 * For changes of the schema. An index is built for as long as it takes, and a connection that was given up on would
 * fail the release while the build goes on.
 */
export function openReleaseMongo(place: MongoPlace): Mongo {
  return openWith({ ...OPTIONS, socketTimeoutMS: 0 }, place);
}

function openWith(settings: MongoClientOptions, { url, database, appName }: MongoPlace): Mongo {
  const client = new MongoClient(url, { ...settings, appName });
  return { client, db: client.db(database), close: () => client.close() };
}

/** Rejects when MongoDB does not answer within `limitMs`; used by `/readyz`. */
export async function pingMongo(mongo: Mongo, limitMs: number): Promise<void> {
  // The driver has no bound of its own for one command: its `timeoutMS` has no effect.
  const late = () => new Error(`MongoDB did not answer within ${limitMs} ms`);
  await bounded(mongo.db.command({ ping: 1 }), limitMs, late);
}

/** What each option of a connection string must be, where it is given at all. */
const WANTED_OPTIONS: Readonly<Record<string, string>> = {
  // An acknowledged submit that a failover may roll back is worse than a refused start.
  w: 'majority',
  journal: 'true',
  j: 'true',
  safe: 'true',
  // A secondary may not know yet what was just written: a grade would be decided on answers of a moment ago.
  readpreference: 'primary',
  readconcernlevel: 'majority',
};
/** They choose among secondaries. */
const REFUSED_OPTIONS = ['readpreferencetags', 'maxstalenessseconds'];

/**
 * What in a MongoDB connection string weakens `w: majority, journal: true` or majority reads of the primary, as a phrase
 * without the string itself (it may hold a password); undefined when nothing does.
 */
export function weaknessOf(url: string): string | undefined {
  if (!url.includes('?')) return undefined;
  for (const pair of url.slice(url.indexOf('?') + 1).split(/[&;]/)) {
    const [name = '', value = ''] = pair.split('=', 2).map((part) => decode(part).trim());
    const option = name.toLowerCase();
    const wanted = WANTED_OPTIONS[option];
    if (wanted !== undefined && value.toLowerCase() !== wanted) return `${name} is not ${wanted}`;
    if (REFUSED_OPTIONS.includes(option)) return `${name} is set`;
  }
  return undefined;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const UNESCAPED = 'its user name or password holds a character that must be percent-encoded';
/** One `@`, and before it nothing that would end the credentials early: what follows is then no part of a password. */
const WELL_ESCAPED = /^[a-z+]+:\/\/(?:(?:[^/?#@:%]|%[0-9a-f]{2})*(?::(?:[^/?#@:%]|%[0-9a-f]{2})*)?@)?[^@]*$/i;

/**
 * What the driver would refuse in a connection string, as a phrase for the operator; undefined when it takes it. Nothing is dialled.
 * The driver quotes what it cannot read, and that may be half of a password: then the phrase is ours.
 */
export function unreadableIn(url: string): string | undefined {
  try {
    // Its path names a database, which the driver judges only when it is asked for.
    new MongoClient(url).db();
    return undefined;
  } catch (error) {
    if (!WELL_ESCAPED.test(url)) return UNESCAPED;
    // Options that hold secrets of their own.
    if (/password|properties/i.test(url)) return 'one of its options cannot be read';
    return error instanceof Error ? error.message : 'it cannot be read';
  }
}
