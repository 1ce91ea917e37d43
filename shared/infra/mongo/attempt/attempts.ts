import { LRUCache } from 'lru-cache';
import type { ClientSession } from 'mongodb';
import { inCausalOrder, readForAll, readIn } from '#infra/mongo/causal-read.ts';
import { BY_ID, type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { gather, type Part } from '#infra/process/gather.ts';
import type {
  Attempt,
  AttemptKey,
  AttemptStatus,
  Sitting,
  StoredAnswer,
  SubmitSource,
} from '#shared/attempt/attempt.ts';
import type { AboutAttempt } from '#shared/attempt/commands.ts';
import type { IdFacts } from '#shared/attempt/question.ts';
import type { ListedAttempt } from '#shared/attempt/redact.ts';
import { attempts, textRows, whereKey, whereKeys } from './collections.ts';

/** Reads attempts: one whole or by its ref, the list of one student, the attempts that a start checks, and counts of all. */

/**
 * Returns the attempt with the texts of all its answers, or null. In a `session` it shows everything that the session has seen. Throws if
 * the row of a text stays missing.
 */
export function findAttempt(mongo: Mongo, key: AttemptKey, session?: ClientSession): Promise<Attempt | null> {
  return readWhole(mongo, whereKey(key), session);
}

/** Returns an attempt whose student the caller does not know, as `findAttempt` does. Every shard receives the read. */
export function findAttemptById(mongo: Mongo, _id: string, session?: ClientSession): Promise<Attempt | null> {
  return readWhole(mongo, { _id }, session);
}

/**
 * Returns the attempt that a command is about, or null. Reads by the id alone if the student was erased since: the attempt has a pseudonym
 * then, and the command names no student or the earlier one. `find` is the read by key.
 */
export async function findAttemptOf(
  mongo: Mongo,
  { attemptId, studentId }: AboutAttempt,
  session: ClientSession,
  find: FindAttempt = (key) => findAttempt(mongo, key, session),
): Promise<Attempt | null> {
  const found = studentId === undefined ? null : await find({ _id: attemptId, studentId }, session);
  return found ?? findAttemptById(mongo, attemptId, session);
}

/** Returns the attempt as `findAttempt` does. Reads of the same moment share one command. */
export type FindAttempt = (key: AttemptKey, session?: ClientSession) => Promise<Attempt | null>;

/** Opens the reads of a process. */
export function openAttemptReads(mongo: Mongo): FindAttempt {
  const read = gather((wanted: readonly WantedAttempt[]) => readMany(mongo, wanted));
  return (key, session) => read({ key: whereKey(key), session });
}

interface WantedAttempt {
  readonly key: AttemptKey;
  readonly session: ClientSession | undefined;
}

/** Reads attempts by one command, in a session that has seen what the session of each caller has. */
async function readMany(mongo: Mongo, wanted: readonly WantedAttempt[]): Promise<Part<Attempt | null>[]> {
  const alone = ({ key, session }: WantedAttempt) => readWhole(mongo, key, session);
  if (wanted.length === 1) return wanted.map(alone);

  const keys = whereKeys(wanted.map(({ key }) => key));
  const found = await readForAll(wanted, (session) =>
    attempts(mongo)
      .find(keys, { ...readIn(session), hint: BY_ID, batchSize: wanted.length + 1 })
      .toArray(),
  );

  const byId = new Map((found as Attempt[]).map((attempt) => [attempt._id, attempt]));
  return wanted.map((one) => {
    const attempt = byId.get(one.key._id);
    if (attempt === undefined || attempt.studentId !== one.key.studentId) return null;
    // A long text is in a row of its own, and a save may replace it between the two reads.
    return hasLongText(attempt) ? alone(one) : attempt;
  });
}

function hasLongText({ answers }: Attempt): boolean {
  return Object.values(answers).some(lacksText);
}

/** Returns true for an answer whose text is in a row of its own and was not read yet. */
function lacksText(answer: StoredAnswer): boolean {
  return answer.textRef === true && answer.text === undefined;
}

async function readWhole(mongo: Mongo, filter: Partial<AttemptKey>, session?: ClientSession): Promise<Attempt | null> {
  // A save may replace a long text between the two reads, so read both again. Each pass reads a newer attempt.
  for (let pass = 1; ; pass++) {
    const attempt = (await attempts(mongo).findOne(filter, readIn(session))) as Attempt | null;
    if (attempt === null || (await fillTexts(mongo, attempt, session))) return attempt;
    // Or the save has not arrived on the shard of its text yet. In a session, the read of the text waits for it.
    if (session === undefined) return inCausalOrder(mongo, (own) => readWhole(mongo, filter, own));
    if (pass === 10) throw new Error(`attempt ${filter._id} lacks the row of a long text`);
  }
}

/**
 * Puts the long texts into the answers that refer to them. Returns false if a row is missing: the attempt has changed since the
 * read.
 */
export async function fillTexts(mongo: Mongo, attempt: Attempt, session?: ClientSession): Promise<boolean> {
  const long = Object.entries(attempt.answers).filter(([, answer]) => lacksText(answer));
  if (long.length === 0) return true;
  const ids = long.map(([key, answer]) => textRowId(attempt._id, key, answer.serverVersion));
  const rows = await textRows(mongo)
    .find({ _id: { $in: ids }, attemptId: attempt._id }, readIn(session))
    .toArray();
  const texts = new Map(rows.map((row) => [row._id, row.text]));
  for (const [key, answer] of long) {
    const text = texts.get(textRowId(attempt._id, key, answer.serverVersion));
    if (text === undefined) return false;
    answer.text = text;
  }
  return true;
}

/** Returns the id of the row that stores one version of a long text. */
export function textRowId(attemptId: string, answerKey: string, serverVersion: number): string {
  return `${attemptId}:${answerKey}:${serverVersion}`;
}

/** Returns the state of an attempt and its round, or null. */
export function readSitting(
  mongo: Mongo,
  key: AttemptKey,
  session: ClientSession,
): Promise<(Sitting & Pick<Attempt, 'status'>) | null> {
  return attempts(mongo).findOne(whereKey(key), {
    ...readIn(session),
    projection: { studentId: 1, status: 1, round: 1 },
  });
}

/**
 * Fields of an attempt that a write needs first: its student, its paper, the ids of its questions, and its round. Only an erasure and a
 * reopening change them; a submit of an earlier round changes nothing.
 */
export type AttemptRef = Sitting & IdFacts & Pick<Attempt, 'paperId'>;

export interface AttemptRefs {
  /**
   * Returns the cached ref of this id, which may name another student, or one who was erased since. Otherwise reads the ref by its key, and
   * returns null if this student has no such attempt. null is not cached: another process may be creating the attempt now.
   */
  find(key: AttemptKey): Promise<AttemptRef | null>;
  /** Reads the ref of an attempt whose student the caller does not know, or null. Every shard receives the read. */
  readById(id: string): Promise<AttemptRef | null>;
  add(ref: AttemptRef): void;
}

/** Caches the `max` most recently used refs in memory, so that a warm save needs no read before its write. */
export function openAttemptRefs(mongo: Mongo, max: number): AttemptRefs {
  const cache = new LRUCache<string, AttemptRef>({ max });
  const add = ({ _id, studentId, paperId, seed, round }: AttemptRef) =>
    void cache.set(_id, { _id, studentId, paperId, seed, ...(round === undefined ? {} : { round }) });
  const read = async (filter: Partial<AttemptKey>) => {
    const projection = { studentId: 1, paperId: 1, seed: 1, round: 1 } as const;
    const ref = (await attempts(mongo).findOne(filter, { projection })) as AttemptRef | null;
    if (ref !== null) add(ref);
    return ref;
  };
  return {
    add,
    find: async (key) => cache.get(key._id) ?? read(whereKey(key)),
    readById: (_id) => read({ _id }),
  };
}

const LISTED_FIELDS = {
  examId: 1,
  status: 1,
  startedAt: 1,
  submittedAt: 1,
  deadlineAt: 1,
  durationSeconds: 1,
  totalScore: 1,
  correctCount: 1,
  wrongCount: 1,
  exam: 1,
  voidedAt: 1,
} as const satisfies Partial<Record<keyof ListedAttempt, 1>>;

/** Returns the newest attempts of one student, newest start first, without answers, events and paper. */
export async function listAttempts(mongo: Mongo, studentId: string, limit: number): Promise<ListedAttempt[]> {
  const found = await attempts(mongo)
    .find({ studentId }, { projection: LISTED_FIELDS, sort: { startedAt: -1 }, limit, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  return found as ListedAttempt[];
}

/** Fields of an earlier attempt that a start needs. */
export type EarlierAttempt = Sitting &
  Pick<Attempt, 'status' | 'deadlineAt' | 'accessLinkId' | 'attemptNumber' | 'startKeys' | 'voidedAt' | 'stamp'>;

type OfExam = Pick<Attempt, 'examId' | 'studentId'>;

/**
 * Returns, for each of these students at an exam, all of their attempts at it, oldest first. They are few: one read serves the start key,
 * the open attempt and the counts.
 */
export async function earlierAmong(mongo: Mongo, wanted: readonly OfExam[]): Promise<EarlierAttempt[][]> {
  const found = (await attempts(mongo)
    .find(
      { studentId: { $in: wanted.map((one) => one.studentId) }, examId: { $in: wanted.map((one) => one.examId) } },
      {
        projection: {
          examId: 1,
          studentId: 1,
          status: 1,
          deadlineAt: 1,
          accessLinkId: 1,
          attemptNumber: 1,
          startKeys: 1,
          round: 1,
          voidedAt: 1,
          stamp: 1,
        },
        sort: { attemptNumber: 1 },
        hint: 'attempt_number_of_student',
        maxTimeMS: QUERY_LIMIT_MS,
      },
    )
    .toArray()) as (EarlierAttempt & OfExam)[];
  return wanted.map(({ examId, studentId }) =>
    found.filter((attempt) => attempt.examId === examId && attempt.studentId === studentId),
  );
}

/**
 * Stores a further start key in the attempt, which keeps its first key and the newest `aliases` others. Does nothing if it has the key.
 * Throws a duplicate key error if another attempt of this student has it.
 */
export async function addStartKey(mongo: Mongo, attempt: AttemptKey, key: string, aliases: number): Promise<void> {
  await attempts(mongo).updateOne(
    { ...whereKey(attempt), startKeys: { $ne: key } },
    { $push: { startKeys: { $each: [key], $position: 1, $slice: aliases + 1 } } },
    { maxTimeMS: QUERY_LIMIT_MS },
  );
}

/** Totals of the attempts that have the same status and submit source. */
export interface AttemptCount {
  status: AttemptStatus;
  submittedBy: SubmitSource | null;
  attempts: number;
  linked: number;
  keyed: number;
  scored: number;
  released: number;
  questions: number;
  answers: number;
  graded: number;
  events: number;
}

/** The index of the attempts of each status. That of graded ones holds all that is counted. */
const INDEX_OF: Readonly<Record<AttemptStatus, string>> = {
  IN_PROGRESS: 'overdue',
  SUBMITTED: 'ungraded_of_exam',
  GRADED: 'counts_of_graded',
};

/**
 * Counts all attempts by status and submit source. Each status is counted by a read of its own, so an attempt that changes its status
 * meanwhile may be in two counts or in none.
 */
export async function countAttempts(mongo: Mongo): Promise<AttemptCount[]> {
  const counted = Object.entries(INDEX_OF).map(([status, hint]) => countOf(mongo, status as AttemptStatus, hint));
  return (await Promise.all(counted)).flat();
}

function countOf(mongo: Mongo, status: AttemptStatus, hint: string): Promise<AttemptCount[]> {
  const whether = (path: string) => ({ $sum: { $cond: [path, 1, 0] } });
  return attempts(mongo)
    .aggregate<AttemptCount>(
      [
        { $match: { status } },
        {
          $group: {
            _id: { status: '$status', submittedBy: '$submittedBy' },
            attempts: { $sum: 1 },
            linked: whether('$tally.linked'),
            keyed: whether('$tally.keyed'),
            scored: whether('$tally.scored'),
            released: whether('$tally.released'),
            questions: { $sum: '$tally.questions' },
            answers: { $sum: '$tally.answers' },
            graded: { $sum: '$tally.graded' },
            events: { $sum: '$eventSeq' },
          },
        },
        { $addFields: { status: '$_id.status', submittedBy: { $ifNull: ['$_id.submittedBy', null] } } },
        { $project: { _id: 0 } },
      ],
      { hint, maxTimeMS: QUERY_LIMIT_MS * 4 },
    )
    .toArray();
}
