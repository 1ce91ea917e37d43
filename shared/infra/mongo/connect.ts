import type { EventEmitter } from 'node:events';
import { type Db, MongoClient, type MongoClientOptions, MongoNetworkError } from 'mongodb';
// @ts-expect-error The driver has types for its public interface alone.
import { Connection } from 'mongodb/lib/cmap/connection.js';
import { withTimeout } from '#infra/process/background.ts';

/** The MongoDB client of a process. `close` ends every socket. */
export interface Mongo {
  client: MongoClient;
  db: Db;
  close(): Promise<void>;
}

export interface MongoAddress {
  url: string;
  /** Takes precedence over the path of the URL. */
  database: string;
  /** Name of this process in the server's own log. */
  appName: string;
}

/**
 * Time limit of one query or write, in milliseconds. A command that exceeds it fails as an outage. A slow read means a missing index
 * or a sick server. A write could otherwise wait for the open transaction of a killed process as long as MongoDB keeps it.
 */
export const QUERY_LIMIT_MS = 5_000;

/**
 * Index of a read by many ids that also names their shard keys, so that a router asks only their shards. Without it a planner may choose an
 * index of the other fields, of which each id meets many rows.
 */
export const BY_ID = '_id_';

/** Time limits of the client for finding a server, connecting to it and waiting for a free connection, in milliseconds. */
export type MongoLimits = Pick<
  MongoClientOptions,
  'serverSelectionTimeoutMS' | 'connectTimeoutMS' | 'socketTimeoutMS' | 'waitQueueTimeoutMS'
>;

const OPTIONS: MongoClientOptions = {
  // An acknowledged write must survive the loss of any one server and a power failure: majority and journal.
  writeConcern: { w: 'majority', journal: true },
  readConcern: { level: 'majority' },
  // A secondary may lack the latest writes, on which grades and replies depend.
  readPreference: 'primary',
  retryWrites: true,
  retryReads: true,
  ignoreUndefined: true,
  serverSelectionTimeoutMS: 3_000,
  connectTimeoutMS: 3_000,
  // A hung server must not block a request for ever. This is longer than the limit of any command here.
  socketTimeoutMS: 20_000,
  heartbeatFrequencyMS: 2_000,
  maxPoolSize: 50,
  waitQueueTimeoutMS: 5_000,
};

/**
 * Opens the client without waiting for a server. A process can therefore start before MongoDB, answer `/healthz` and report
 * unready. If the first command fails because no server was found, only `client.connect()` dials again; see `until-usable.ts`.
 *
 * `limits` replaces time limits; tests set longer ones.
 */
export function openMongo(address: MongoAddress, limits: MongoLimits = {}): Mongo {
  return openWith({ ...OPTIONS, ...limits }, address);
}

/**
 * Opens the client for schema changes, without a socket timeout. Building an index may take long. A timeout would fail the
 * release although the build continues on the server.
 */
export function openReleaseMongo(address: MongoAddress): Mongo {
  return openWith({ ...OPTIONS, socketTimeoutMS: 0 }, address);
}

function openWith(settings: MongoClientOptions, { url, database, appName }: MongoAddress): Mongo {
  const client = new MongoClient(url, { ...settings, appName });
  return { client, db: client.db(database), close: () => client.close() };
}

/** Resolves if MongoDB answers a ping within `limitMs`, rejects otherwise. `/readyz` uses it. */
export async function pingMongo(mongo: Mongo, limitMs: number): Promise<void> {
  // The driver has no time limit for one command: its `timeoutMS` has no effect.
  const late = () => new Error(`MongoDB did not answer within ${limitMs} ms`);
  await withTimeout(mongo.db.command({ ping: 1 }), limitMs, late);
}

/** Required values of connection string options, if an option is present. */
const WANTED_OPTIONS: Readonly<Record<string, string>> = {
  // A weaker setting would let a failover roll back an acknowledged submit. A process that refuses to start is better.
  w: 'majority',
  journal: 'true',
  j: 'true',
  safe: 'true',
  // A secondary may lack the latest writes, so a grade could be decided on outdated answers.
  readpreference: 'primary',
  readconcernlevel: 'majority',
};
/** Options that select secondaries. */
const REFUSED_OPTIONS = ['readpreferencetags', 'maxstalenessseconds'];

/**
 * Returns which option of a MongoDB connection string weakens `w: majority, journal: true` or majority reads of the primary, or
 * undefined if none does. The phrase does not quote the string, which may contain a password.
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

const UNESCAPED = 'its user name or password contains a character that must be percent-encoded';
/**
 * Matches URLs with at most one `@` and no character before it that would end the credentials early. The text after the `@` then
 * contains no part of a password.
 */
const WELL_ESCAPED = /^[a-z+]+:\/\/(?:(?:[^/?#@:%]|%[0-9a-f]{2})*(?::(?:[^/?#@:%]|%[0-9a-f]{2})*)?@)?[^@]*$/i;

/**
 * Returns why the driver would refuse a connection string, as a phrase for the operator, or undefined if it accepts the string. Opens
 * no connection. The driver quotes the part that it cannot parse; if that could be part of a password, the phrase is our own.
 */
export function unreadableIn(url: string): string | undefined {
  try {
    // The path names a database. The driver checks the name only when `db` is called.
    new MongoClient(url).db();
    return undefined;
  } catch (error) {
    if (!WELL_ESCAPED.test(url)) return UNESCAPED;
    // These options may contain secrets.
    if (/password|properties/i.test(url)) return 'one of its options cannot be read';
    return error instanceof Error ? error.message : 'it cannot be read';
  }
}

/** How a connection string reaches its servers. */
export interface MongoLink {
  /** Names of the servers; none for a socket of this machine. */
  hosts: readonly string[];
  isEncrypted: boolean;
  hasLogin: boolean;
}

/** Returns how a readable connection string reaches its servers. Opens no connection. */
export function readMongoLink(url: string): MongoLink {
  const { hosts, srvHost, tls, credentials } = new MongoClient(url).options;
  // The driver queries the names of a `mongodb+srv` string when it connects.
  const names = srvHost === undefined ? hosts.flatMap(({ host }) => host ?? []) : [srvHost];
  return { hosts: names, isEncrypted: tls, hasLogin: credentials !== undefined };
}

/** The part of the driver's connection that writes a command to its socket. */
interface DriverConnection {
  readonly socket: EventEmitter;
  writeCommand(...parts: unknown[]): Promise<void>;
}

/**
 * Makes a command fail whose socket closes before it is written. The driver waits for `drain` or `error` of the socket and not for `close`.
 * If the server ends its connections in between (a kill, a restart), the command and its request would wait for ever. No time limit of the
 * driver covers that wait.
 */
function failOnClosedSockets(connection: DriverConnection): void {
  const write = connection.writeCommand;
  connection.writeCommand = async function writeUntilClosed(...parts) {
    const { socket } = this;
    const closed = Promise.withResolvers<never>();
    const fail = () => closed.reject(new MongoNetworkError('the connection closed before the command was written'));
    socket.once('close', fail);
    try {
      await Promise.race([write.apply(this, parts), closed.promise]);
    } finally {
      socket.off('close', fail);
    }
  };
}

failOnClosedSockets(Connection.prototype);
