import { randomUUID } from 'node:crypto';
import { type IndexDescriptionInfo, MongoServerError } from 'mongodb';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { openExamNotes } from '#infra/mongo/attempt/exams.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { WORKERS } from '#infra/mongo/live-workers.ts';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import { CLUSTER_SAMPLES } from '#infra/mongo/operations/samples.ts';
import { proveServer } from '#infra/mongo/probe/probe.ts';
import { isRouter } from '#infra/mongo/probe/server.ts';
import { type PassedProbe, type SchemaState, schemaState } from '#infra/mongo/schema-state.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { INDEXES, MADE_BEFOREHAND } from './indexes.ts';

/**
 * One step of the schema. A step only expands: until every process is new, older processes must still read and write correctly. A
 * later step removes what is no longer used. `compatibleFrom` is the oldest schema version whose processes still work with this one.
 */
interface Migration {
  version: number;
  name: string;
  compatibleFrom: number;
  /** Work besides the creation of indexes. The indexes exist when it starts. */
  up?(mongo: Mongo): Promise<void>;
}

/** The schema version of the first release: from it on, each step keeps what is stored, and the processes of the release before work on. */
export const BASELINE = 9;
/** No release had this version. The step of the baseline migrates from it, and from no earlier one. */
const BEFORE_BASELINE = BASELINE - 1;

/** Every step since the baseline, oldest first. */
export const MIGRATIONS: readonly Migration[] = [
  { version: 9, name: 'the baseline', compatibleFrom: BASELINE, up: completeRows },
  { version: 10, name: 'a row for each exam of an attempt', compatibleFrom: BASELINE, up: noteExams },
];

/**
 * Completes what processes of the schema before the baseline have stored. They run no longer: a lease of theirs counts as moved now, and
 * their rows and samples, which would end within two hours, are deleted.
 */
async function completeRows(mongo: Mongo): Promise<void> {
  const leased = { lockedUntil: { $ne: null }, movedAt: { $exists: false } };
  for (const mailbox of MAILBOXES)
    await mongo.db.collection(mailbox).updateMany(leased, { $currentDate: { movedAt: true } });
  for (const name of [WORKERS, CLUSTER_SAMPLES]) await mongo.db.collection(name).deleteMany({});
}

/** Stores the rows of the exams whose attempts were started before. A repeat changes nothing. */
async function noteExams(mongo: Mongo): Promise<void> {
  const note = openExamNotes(mongo);
  const projection = { examId: 1, organizationId: 1, startedAt: 1, deadlineAt: 1, scope: 1, exam: 1 } as const;
  // The newest start comes last, and so does the title that it has copied. The first start of all is the one that is met first.
  for await (const attempt of attempts(mongo).find({}, { projection, sort: { examId: 1, _id: 1 }, hint: 'of_exam' })) {
    await note(attempt);
  }
}

/** The schema version that this code needs. */
export const SCHEMA_VERSION = MIGRATIONS.at(-1)?.version ?? 0;

/** Lease of the running migration, the interval of its renewal, and the poll of a waiting one. */
const LEASE_MS = 30 * SECOND;
const RENEW_MS = 10 * SECOND;
const WAIT_MS = 500;
const LEASE_LOST = 'the migration lease was lost: another runner took over';

const NAMESPACE_NOT_FOUND = 26;
const NAMESPACE_EXISTS = 48;
const INDEX_CONFLICTS: readonly unknown[] = [85, 86];

interface MigrationReport {
  from: number;
  to: number;
  applied: string[];
}

/**
 * Migrates the schema to the version of this code. The `release` process runs it.
 *
 * One migration runs at a time, under a lease. A second one waits and finds nothing to do; if one is killed, the next starts when its
 * lease expires. Every run creates missing indexes, also dropped ones. Steps are idempotent, because a process may be killed between a
 * step and the storing of its version.
 *
 * Before any change, the server is probed, unless this database has stored that it passed. `isProbed` skips the probe, for callers that
 * know the server.
 *
 * @throws UnfitServer if the server lacks a required behaviour
 * @throws MigrationRefused if the schema is older than any release, or the collections are on shards and the server is one of them
 */
export async function migrate(
  mongo: Mongo,
  report: (line: string) => void,
  { isProbed = false } = {},
): Promise<MigrationReport> {
  const passed = isProbed ? undefined : await proveServer(mongo, await passedBefore(mongo), report);
  return underMigrationLease(mongo, report, async ({ runner, from }) => {
    const fault =
      faultBeforeBaseline(from) ?? (await faultPastRouters(mongo, await schemaState(mongo).findOne({ _id: 'schema' })));
    if (fault !== undefined) throw new MigrationRefused(fault);
    if (passed !== undefined) await schemaState(mongo).updateOne({ _id: 'schema', runner }, { $set: { passed } });
    const steps = MIGRATIONS.filter((migration) => migration.version > from);
    for (const step of steps) report(`schema ${step.version}: ${step.name}`);
    await createIndexes(mongo);
    for (const step of steps) {
      await step.up?.(mongo);
      await noteVersion(mongo, runner, step);
    }
    return { from, to: Math.max(from, SCHEMA_VERSION), applied: steps.map((step) => step.name) };
  });
}

/** The lease of the process that changes the schema. */
interface MigrationLease {
  /** Names the holder in the row of the schema. */
  readonly runner: string;
  /** The stored schema version. */
  readonly from: number;
}

/** Runs `work` while no other process changes the schema. Waits for the lease, and renews it meanwhile. */
async function underMigrationLease<Result>(
  mongo: Mongo,
  report: (line: string) => void,
  work: (lease: MigrationLease) => Promise<Result>,
): Promise<Result> {
  const runner = randomUUID();
  const from = await acquireLease(mongo, runner, report);
  const renewal = setInterval(() => void extendLease(mongo, runner).catch(() => undefined), RENEW_MS);
  try {
    return await work({ runner, from });
  } finally {
    clearInterval(renewal);
    await schemaState(mongo).updateOne({ _id: 'schema', runner }, { $set: { runner: null, lockedUntil: null } });
  }
}

async function passedBefore(mongo: Mongo): Promise<PassedProbe | undefined> {
  return (await schemaState(mongo).findOne({ _id: 'schema' }))?.passed;
}

/** Thrown if this database cannot be migrated as it is. The message is for an operator. */
export class MigrationRefused extends Error {
  override name = 'MigrationRefused';
}

/** The database has an index that excludes a declared one, because it has the same name or the same keys. */
export class IndexConflict extends MigrationRefused {}

/**
 * Creates the declared indexes that are missing, and drops none.
 * @throws IndexConflict if an index has the name or the keys of a declared one, and differs otherwise
 */
export async function createIndexes(mongo: Mongo, declared = INDEXES): Promise<void> {
  for (const name of MADE_BEFOREHAND) await createCollection(mongo, name);
  const byCollection = Map.groupBy(declared, ({ collection }) => collection);
  for (const [collection, indexes] of byCollection) {
    // Create all indexes of a collection in one command, so that the server reads the collection once for all of them.
    await mongo.db
      .collection(collection)
      .createIndexes(indexes.map(({ name, keys, options }) => ({ ...options, name, key: { ...keys } })))
      .catch((error: unknown) => {
        if (!(error instanceof MongoServerError && INDEX_CONFLICTS.includes(error.code))) throw error;
        throw new IndexConflict(
          `an index of ${collection} prevents a declared one: drop it and run \`npm run migrate\` again. MongoDB: ${error.message}`,
          { cause: error },
        );
      });
  }
}

async function createCollection(mongo: Mongo, name: string): Promise<void> {
  try {
    await mongo.db.createCollection(name);
  } catch (error) {
    if (!(error instanceof MongoServerError && error.code === NAMESPACE_EXISTS)) throw error;
  }
}

/** Waits until this runner holds the lease. Returns the stored schema version. */
async function acquireLease(mongo: Mongo, runner: string, report: (line: string) => void): Promise<number> {
  for (let pass = 0; ; pass++) {
    const update = guardedUpdate([{ $lte: [{ $ifNull: [msOf('$lockedUntil'), 0] }, NOW_MS] }], {
      runner: literal(runner),
      lockedUntil: nowPlus(LEASE_MS),
    });
    const acquired = await schemaState(mongo).findOneAndUpdate({ _id: 'schema' }, update.pipeline, {
      returnDocument: 'after',
    });
    if (acquired === null) await createState(mongo);
    else if (wasAccepted(update, acquired)) return acquired.version;
    else {
      if (pass % 10 === 0) report('another migration is running; waiting for it');
      await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
    }
  }
}

async function createState(mongo: Mongo): Promise<void> {
  try {
    await schemaState(mongo).insertOne({
      _id: 'schema',
      version: 0,
      compatibleFrom: 0,
      runner: null,
      lockedUntil: null,
    });
  } catch (error) {
    if (!isDuplicateKey(error)) throw error;
  }
}

async function extendLease(mongo: Mongo, runner: string): Promise<void> {
  const extended = await schemaState(mongo).updateOne({ _id: 'schema', runner }, [
    { $set: { lockedUntil: nowPlus(LEASE_MS) } },
  ]);
  if (extended.matchedCount !== 1) throw new Error(LEASE_LOST);
}

async function noteVersion(mongo: Mongo, runner: string, step: Migration): Promise<void> {
  const noted = await schemaState(mongo).updateOne(
    { _id: 'schema', runner },
    // No step admits processes that an earlier one has excluded.
    [{ $set: { version: step.version, compatibleFrom: { $max: ['$compatibleFrom', step.compatibleFrom] } } }],
  );
  if (noted.matchedCount !== 1) throw new Error(LEASE_LOST);
}

/**
 * Returns the reasons why this process must not start on this database, one line each; an empty list if it may start. A newer
 * schema is accepted if its `compatibleFrom` includes our version.
 */
export async function schemaFaults(mongo: Mongo): Promise<string[]> {
  const now = await schemaState(mongo).findOne({ _id: 'schema' });
  if (now === null || now.version < SCHEMA_VERSION) {
    return [
      faultBeforeBaseline(now?.version ?? 0) ??
        `the schema is at version ${now?.version ?? 0} and this code needs ${SCHEMA_VERSION}: run \`npm run migrate\``,
    ];
  }
  if (now.compatibleFrom > SCHEMA_VERSION) {
    return [
      `the schema (${now.version}) no longer works with version ${SCHEMA_VERSION} of this code: deploy the newer one`,
    ];
  }
  const fault = await faultPastRouters(mongo, now);
  return fault === undefined ? missingUniqueIndexes(mongo) : [fault];
}

/** Returns a fault if no release has made a schema of this version. 0: the database is empty. */
function faultBeforeBaseline(version: number): string | undefined {
  if (version === 0 || version >= BEFORE_BASELINE) return undefined;
  return `the schema is at version ${version}, which no release had: begin with an empty database`;
}

/** Returns a fault if the collections are on shards and the server is one of these. What a client writes there, no router finds. */
async function faultPastRouters(mongo: Mongo, state: SchemaState | null): Promise<string | undefined> {
  if (state?.sharded !== true || (await isRouter(mongo))) return undefined;
  return 'the collections are on shards, and MONGODB_URL names no router (mongos): docs/operating.md, "Shards"';
}

async function missingUniqueIndexes(mongo: Mongo): Promise<string[]> {
  const faults: string[] = [];
  const unique = INDEXES.filter(({ options }) => options?.unique === true);
  for (const collection of new Set(unique.map((index) => index.collection))) {
    const present = new Map((await indexesOf(mongo, collection)).map((index) => [index.name, index]));
    for (const index of unique) {
      if (index.collection !== collection) continue;
      const found = present.get(index.name);
      if (found?.unique !== true || Object.keys(found.key).join() !== Object.keys(index.keys).join()) {
        faults.push(
          `${collection} lacks the unique index ${index.name}, which prevents duplicates: run \`npm run migrate\``,
        );
      }
    }
  }
  return faults;
}

/** Returns the indexes of a collection; an empty list if the collection does not exist. */
export async function indexesOf(mongo: Mongo, collection: string): Promise<IndexDescriptionInfo[]> {
  try {
    return await mongo.db.collection(collection).indexes();
  } catch (error) {
    if (error instanceof MongoServerError && error.code === NAMESPACE_NOT_FOUND) return [];
    throw error;
  }
}
