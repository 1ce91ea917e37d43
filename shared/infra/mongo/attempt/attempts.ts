import type { ClientSession } from 'mongodb';
import { inCausalOrder, readForAll, readIn } from '#infra/mongo/causal-read.ts';
import { BY_ID, type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { gather, type Part } from '#infra/process/gather.ts';
import type { Attempt, AttemptKey, StoredAnswer } from '#shared/attempt/attempt.ts';
import type { AboutAttempt } from '#shared/attempt/commands.ts';
import type { ListedAttempt } from '#shared/attempt/redact.ts';
import { attempts, textRows, whereKey, whereKeys } from './collections.ts';

/** Reads attempts: one with all of its texts, and the list of one student. */

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
