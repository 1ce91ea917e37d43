import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { type EndedRuns, liveWorkers } from '#infra/mongo/live-workers.ts';
import { queueDepths } from '#infra/mongo/mailbox/queue-depths.ts';
import { HOUR, MINUTE } from '#shared/kernel/time.ts';
import { BUSY_COUNTS_MS, type BusyLoop } from '#shared/operations/alarms.ts';

/** The state of every queue at one minute, for the charts of the console. */
export interface ClusterSample {
  /** The minute in UTC, `2026-05-04T03:00`: of several front doors, one stores it. */
  _id: string;
  at: Date;
  queues: QueueSample[];
  /** Work that held the event loop of a front door, which has no row of its own. Absent without such work. */
  heldLoops?: BusyLoop[];
}

interface QueueSample {
  queue: string;
  due: number;
  /** Commands that live workers have settled within the last minute: done or rejected. */
  settled: number;
  /** Runs that failed within the last minute. */
  failed: number;
  /** Commands that died within the last minute. */
  died: number;
  oldestDueMs: number;
}

export const CLUSTER_SAMPLES = 'cluster_samples';
/** Time for which a sample stays. */
export const SAMPLE_KEPT_MS = 2 * HOUR;
const CHARTED_MS = HOUR;
const MINUTE_LETTERS = 'YYYY-MM-DDTHH:MM'.length;

const samples = (mongo: Mongo) => mongo.db.collection<ClusterSample>(CLUSTER_SAMPLES);

function minuteOf(now: number): string {
  return new Date(now).toISOString().slice(0, MINUTE_LETTERS);
}

/** Stores the sample of the minute, unless another process has stored it. Returns true if this process has. */
export async function storeSample(mongo: Mongo, now: number): Promise<boolean> {
  const at = new Date(now);
  const _id = minuteOf(now);
  const known = await samples(mongo).findOne({ _id }, { projection: { _id: 1 }, maxTimeMS: QUERY_LIMIT_MS });
  if (known !== null) return false;
  const live = await liveWorkers(mongo, now);
  const depths = await queueDepths(mongo, now, live);
  const sumIn = (queue: string, count: keyof EndedRuns) => live.reduce((sum, row) => sum + (row[count][queue] ?? 0), 0);
  const queues = depths.map(({ queue, due, oldestDueMs }) => ({
    queue,
    due,
    settled: sumIn(queue, 'settled'),
    failed: sumIn(queue, 'failed'),
    died: sumIn(queue, 'died'),
    oldestDueMs: oldestDueMs ?? 0,
  }));
  try {
    await samples(mongo).insertOne({ _id, at, queues });
    return true;
  } catch (error) {
    if (isDuplicateKey(error)) return false;
    throw error;
  }
}

/** Adds work that held the event loop of a front door to the sample of the minute, which exists after `storeSample`. */
export async function storeHeldLoop(mongo: Mongo, now: number, held: BusyLoop): Promise<void> {
  await samples(mongo).updateOne({ _id: minuteOf(now) }, { $push: { heldLoops: held } });
}

/** Returns the recent work that held the event loops of front doors. */
export async function readHeldLoops(mongo: Mongo, now: number): Promise<BusyLoop[]> {
  // A sample is up to a minute older than what is added to it. Without the minute, what held a loop four minutes ago would be missed.
  const rows = await samples(mongo)
    .find({ at: { $gt: new Date(now - BUSY_COUNTS_MS - MINUTE) } }, { maxTimeMS: QUERY_LIMIT_MS })
    .project<Pick<ClusterSample, 'heldLoops'>>({ heldLoops: 1 })
    .toArray();
  return rows.flatMap(({ heldLoops = [] }) => heldLoops);
}

/** A value of each minute of the last hour, the oldest first; null for a minute without a sample. */
export type Course = readonly (number | null)[];

/** The last hour of one queue. */
export interface QueueCourse {
  due: Course;
  settled: Course;
  failed: Course;
  died: Course;
  oldestDueMs: Course;
}

/** Returns the last hour of each queue that a sample names. */
export async function readCourses(mongo: Mongo, now: number): Promise<ReadonlyMap<string, QueueCourse>> {
  const since = new Date(now - CHARTED_MS);
  const rows = await samples(mongo)
    .find({ at: { $gt: since } }, { maxTimeMS: QUERY_LIMIT_MS })
    .sort({ at: 1 })
    .limit(2 * (CHARTED_MS / MINUTE))
    .toArray();
  return coursesOf(rows, now);
}

/** Returns the courses of these samples until `now`. */
export function coursesOf(rows: readonly ClusterSample[], now: number): ReadonlyMap<string, QueueCourse> {
  const length = CHARTED_MS / MINUTE;
  const last = Math.floor(now / MINUTE);
  const courses = new Map<string, Record<keyof QueueCourse, (number | null)[]>>();
  for (const { at, queues } of rows) {
    const place = length - 1 - (last - Math.floor(at.getTime() / MINUTE));
    if (place < 0 || place >= length) continue;
    for (const { queue, ...values } of queues) {
      const course = courses.get(queue) ?? emptyCourse(length);
      courses.set(queue, course);
      for (const name of COURSES) course[name][place] = values[name];
    }
  }
  return courses;
}

const COURSES = ['due', 'settled', 'failed', 'died', 'oldestDueMs'] as const satisfies readonly (keyof QueueCourse)[];

function emptyCourse(length: number): Record<keyof QueueCourse, (number | null)[]> {
  const empty = () => Array.from({ length }, () => null);
  return { due: empty(), settled: empty(), failed: empty(), died: empty(), oldestDueMs: empty() };
}
