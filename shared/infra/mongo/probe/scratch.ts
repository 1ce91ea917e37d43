import { randomBytes } from 'node:crypto';
import {
  type ClientSession,
  type ClientSessionOptions,
  type Collection,
  type CreateIndexesOptions,
  type Document,
  MongoError,
  MongoServerError,
} from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { endHolderSessions, sessionIdOf } from '#infra/mongo/mailbox/claim.ts';
import { settlesWithin } from '#infra/process/background.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';

/** A behaviour that the product requires of a server. */
export interface Behaviour {
  /** A noun phrase. The schema state stores the names for which a server has passed. */
  name: string;
  /** Describes for an operator, in one sentence, which failure of the product the behaviour prevents. */
  breaks: string;
  /**
   * Tests the behaviour. Returns what the server does instead, or undefined if the behaviour holds. May throw an unexpected refusal
   * of the server, which then counts as a fault. Throws an outage if the server is unavailable; the behaviour is then unknown.
   */
  fault(trial: Trial): Promise<string | undefined>;
}

/** A row of the collection with unique indexes. Only `live` rows are in its partial index. */
export interface KeyRow {
  _id: string;
  key: string;
  live?: boolean;
}

/** A row of the other collection. Each behaviour uses its own fields. */
export interface ScratchRow extends Document {
  _id: string;
}

/** The collections and sessions of one test of a behaviour. Two tests never share a row. */
export interface Trial {
  mongo: Mongo;
  keys: Collection<KeyRow>;
  rows: Collection<ScratchRow>;
  /** Error messages for those `SCRATCH_INDEXES` that the server refused, by name of the index. */
  refusedIndexes: ReadonlyMap<string, string>;
  newId(): string;
  /** Starts a session. The session and its transaction end with the test. */
  session(options?: ClientSessionOptions): ClientSession;
}

/** The collections of one probe. */
export interface Scratch {
  beginTrial(name: string): Trial & { end(): Promise<void> };
  drop(): Promise<void>;
}

interface ScratchIndex {
  collection: 'keys' | 'rows';
  name: string;
  keys: Readonly<Record<string, 1 | -1>>;
  options: Pick<CreateIndexesOptions, 'unique' | 'partialFilterExpression' | 'expireAfterSeconds'>;
}

/** The indexes of a kind that a server may lack; `schema/indexes.ts` declares the product's own. */
export const SCRATCH_INDEXES: readonly ScratchIndex[] = [
  {
    collection: 'keys',
    name: 'live_key',
    keys: { key: 1 },
    options: { unique: true, partialFilterExpression: { live: true } },
  },
  {
    collection: 'rows',
    name: 'due',
    keys: { queue: 1, status: 1, dueAt: 1 },
    options: { partialFilterExpression: { status: 'PENDING' } },
  },
  {
    collection: 'rows',
    name: 'expired',
    keys: { settledAt: 1 },
    options: { expireAfterSeconds: 3_600, partialFilterExpression: { status: 'REJECTED' } },
  },
];

const PREFIX = 'probe';
/**
 * Age at which the collections of a probe count as abandoned by a killed one. A probe takes a second or two, or some minutes if most
 * commands time out.
 */
const ABANDONED_AFTER_MS = 15 * MINUTE;
const END_WITHIN_MS = SECOND;

/**
 * Creates the collections of a probe under a unique name, and drops those of killed probes. `now` is MongoDB's time in Unix
 * milliseconds. An index that the server refuses is recorded, and the behaviours that need it then fail by themselves.
 */
export async function openScratch(mongo: Mongo, now: number): Promise<Scratch> {
  await dropAbandoned(mongo, now);
  const prefix = `${PREFIX}_${now}_${randomBytes(4).toString('hex')}`;
  const keys = mongo.db.collection<KeyRow>(`${prefix}_keys`);
  const rows = mongo.db.collection<ScratchRow>(`${prefix}_rows`);
  const refusedIndexes = new Map<string, string>();
  const drop = async () => {
    // A collection that cannot be dropped now is dropped by a later probe.
    for (const collection of [keys, rows]) await collection.drop().catch(ignoreFault);
  };
  try {
    for (const { collection, name, keys: fields, options } of SCRATCH_INDEXES) {
      const refusal = await refusalOf({ keys, rows }[collection].createIndex(fields, { ...options, name }));
      if (refusal !== undefined) refusedIndexes.set(name, refusal.message);
    }
  } catch (error) {
    await drop();
    throw error;
  }
  let trials = 0;
  return {
    drop,
    beginTrial(name) {
      const trial = ++trials;
      const sessions: ClientSession[] = [];
      let ids = 0;
      return {
        mongo,
        keys,
        rows,
        refusedIndexes,
        newId: () => `${name} ${trial}.${++ids}`,
        session(options) {
          const session = mongo.client.startSession(options);
          sessions.push(session);
          return session;
        },
        end: async () => void (await Promise.all(sessions.map((session) => endSession(mongo, session)))),
      };
    },
  };
}

async function dropAbandoned(mongo: Mongo, now: number): Promise<void> {
  const named = { name: new RegExp(`^${PREFIX}_\\d+_`) };
  const found = await mongo.db.listCollections(named, { nameOnly: true }).toArray();
  for (const { name } of found) {
    const madeAt = Number(name.split('_', 2)[1]);
    if (now - madeAt > ABANDONED_AFTER_MS) await mongo.db.dropCollection(name).catch(ignoreFault);
  }
}

/**
 * Ends a session and aborts its open transaction. If the abort waits for a command that does not end, the session is killed on the
 * server. If that fails too, the transaction ends by MongoDB's own time limit.
 */
async function endSession(mongo: Mongo, session: ClientSession): Promise<void> {
  const id = session.inTransaction() ? sessionIdOf(session) : null;
  const isOver = await settlesWithin(session.endSession(), END_WITHIN_MS).catch(ignoreFault);
  if (isOver !== true && id !== null)
    await settlesWithin(endHolderSessions(mongo, [id]), END_WITHIN_MS).catch(ignoreFault);
}

function ignoreFault(error: unknown): void {
  if (!(error instanceof MongoError)) throw error;
}

/** Errors of a server that is stepping down, shutting down or not a primary. They are independent of the command. */
const CHANGING_STATE = new Set<unknown>([91, 189, 10107, 11600, 11602, 13435, 13436]);

/**
 * Returns the error with which the server refuses a command, or undefined if it accepts the command.
 *
 * @throws any other error, for example an outage
 */
export async function refusalOf(work: Promise<unknown>): Promise<MongoServerError | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    if (error instanceof MongoServerError && !CHANGING_STATE.has(error.code)) return error;
    throw error;
  }
}

/** Inserts a row with a new id, which it returns. */
export async function insertRow({ rows, newId }: Trial, fields: Readonly<Record<string, unknown>>): Promise<string> {
  const row: ScratchRow = { _id: newId(), ...fields };
  await rows.insertOne(row);
  return row._id;
}

/** Returns the end of a sentence about a command that did not end as required. */
export function inWords(refusal: MongoServerError | undefined): string {
  return refusal === undefined ? 'is accepted' : `is answered with "${refusal.message}" (code ${refusal.code})`;
}
