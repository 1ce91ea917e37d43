import type { ClientSession, Document } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, msOf, NOW_MS, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { type AnswerContent, type Attempt, type AttemptKey, answerKeyOf } from '#shared/attempt/attempt.ts';
import { MAX_ANSWER_BYTES, TEXT_ROW_BYTES } from '#shared/attempt/limits.ts';
import { textRowId } from './attempts.ts';
import { attempts, textRows, whereKey } from './collections.ts';
import { hasTailRoom, putRows, tailAfter } from './event-tail.ts';
import { addToEventLog, EVENT_TIME } from './events.ts';
import { StoredAttempt } from './stored-attempt.ts';

/** One answer to be written. The rules that need no stored state have been checked. */
export interface AnswerWrite {
  attempt: AttemptKey;
  paperIndex: number;
  content: AnswerContent;
  bytes: number;
  clientVersion: number;
  /** Returns the metadata of the SAVE_ANSWER event. Only the write knows the version. */
  metadata(serverVersion: number): object;
}

/** The attempt after a save of one command. It lacks the fields that the caller did not need. */
export type SavedAlone = { kind: 'saved'; stored: StoredAttempt };

/**
 * `saved`: the attempt after the save. `refused`: the attempt as it is stored, which shows the reason. `missing`: the student
 * has no such attempt. Long texts are not filled in.
 */
export type SaveResult =
  | { kind: 'saved'; attempt: Attempt }
  | { kind: 'refused'; attempt: Attempt }
  | { kind: 'missing' };

/** Placeholder for the server version in the event's text. The update replaces it, because only the update knows the version. */
const VERSION_MARK = 987_654_321_012_345;

/**
 * Saves one answer and its event with one MongoDB command, and drops events up to the seq `movedTo` from the tail, because they have
 * rows. The update itself checks status, deadline, version, size and room in the tail, by MongoDB's clock. `refused` means that one of
 * these checks failed; the returned attempt shows which. Use `saveAnswerWithRows` if the new or the stored text is long.
 */
export async function saveAnswer(
  mongo: Mongo,
  write: AnswerWrite,
  { movedTo = 0, projection }: { movedTo?: number; projection?: Document } = {},
): Promise<SavedAlone | Exclude<SaveResult, { kind: 'saved' }>> {
  const at = `$answers.${answerKeyOf(write.paperIndex)}`;
  const tail = tailAfter(movedTo);
  const update = guardedUpdate([...saveConditions(write), { $ne: [`${at}.textRef`, true] }, hasTailRoom(tail)], {
    ...answerChanges(write, write.content),
    eventSeq: { $add: ['$eventSeq', 1] },
    events: { $concatArrays: [tail, [saveEvent(write)]] },
  });
  const bytes = (await attempts(mongo).findOneAndUpdate(whereKey(write.attempt), update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
    raw: true,
    ...(projection === undefined ? {} : { projection }),
  })) as unknown as Buffer | null;
  if (bytes === null) return { kind: 'missing' };
  // The driver's buffer may be a part of a larger one, which the copy does not keep in memory.
  const stored = new StoredAttempt(Buffer.copyBytesFrom(bytes));
  return wasAccepted(update, stored) ? { kind: 'saved', stored } : { kind: 'refused', attempt: stored.whole() };
}

/** Returns true if the text that this write would replace is stored in a row of its own. */
export function replacesLongText({ answers }: Pick<Attempt, 'answers'>, { paperIndex }: AnswerWrite): boolean {
  return answers[answerKeyOf(paperIndex)]?.textRef === true;
}

/** Returns true if the answer's text is so long that it must be stored in a row of its own. */
export function isLongAnswer(content: AnswerContent): boolean {
  return content.text !== undefined && Buffer.byteLength(content.text) > TEXT_ROW_BYTES;
}

/**
 * Saves one answer and its event in one transaction, for a write that stores a long text in a row of its own, or deletes such a row.
 * It also moves events of a full tail to rows.
 */
export async function saveAnswerWithRows(
  mongo: Mongo,
  write: AnswerWrite,
  budgetMs: number,
  now: () => number,
): Promise<SaveResult> {
  const answerKey = answerKeyOf(write.paperIndex);
  return inTransaction<SaveResult>(mongo, budgetMs, async (session) => {
    const before = (await attempts(mongo).findOne(whereKey(write.attempt), { session })) as Attempt | null;
    if (before === null) return { kind: 'missing' };
    const replaced = before.answers[answerKey];
    const serverVersion = (replaced?.serverVersion ?? 0) + 1;
    const long = isLongAnswer(write.content);
    const log = addToEventLog(before, {
      type: 'SAVE_ANSWER',
      metadata: JSON.stringify(write.metadata(serverVersion)),
      createdAt: new Date(now()),
    });
    const update = guardedUpdate(saveConditions(write), {
      ...answerChanges(write, long ? { textRef: true } : write.content),
      eventSeq: literal(log.eventSeq),
      events: literal(log.tail),
    });
    const attempt = (await attempts(mongo).findOneAndUpdate(whereKey(write.attempt), update.pipeline, {
      returnDocument: 'after',
      session,
    })) as Attempt | null;
    if (attempt === null) return { kind: 'missing' };
    if (!wasAccepted(update, attempt)) return { kind: 'refused', attempt };
    await putRows(mongo, log.rows, session);
    if (replaced?.textRef === true) await deleteText(mongo, write.attempt._id, answerKey, serverVersion - 1, session);
    if (long) await storeText(mongo, write, answerKey, serverVersion, session);
    return { kind: 'saved', attempt };
  });
}

function saveConditions(write: AnswerWrite): Document[] {
  const at = `$answers.${answerKeyOf(write.paperIndex)}`;
  const version = { $ifNull: [`${at}.serverVersion`, 0] };
  const otherBytes = { $subtract: ['$answerBytes', { $ifNull: [`${at}.bytes`, 0] }] };
  return [
    { $eq: ['$status', 'IN_PROGRESS'] },
    { $or: [{ $eq: ['$deadlineAt', null] }, { $lt: [NOW_MS, msOf('$deadlineAt')] }] },
    { $lte: [{ $add: [otherBytes, write.bytes] }, MAX_ANSWER_BYTES] },
    ...(write.clientVersion > 0 ? [{ $lte: [version, write.clientVersion] }] : []),
  ];
}

function answerChanges(write: AnswerWrite, stored: object): Record<string, unknown> {
  const key = `answers.${answerKeyOf(write.paperIndex)}`;
  const version = { $ifNull: [`$${key}.serverVersion`, 0] };
  const isNew = { $eq: [version, 0] };
  return {
    [key]: {
      $mergeObjects: [
        literal({ ...stored, clientVersion: write.clientVersion, bytes: write.bytes, isCorrect: null, score: null }),
        { serverVersion: { $add: [version, 1] }, updatedAt: '$$NOW' },
      ],
    },
    answerBytes: { $add: [{ $subtract: ['$answerBytes', { $ifNull: [`$${key}.bytes`, 0] }] }, write.bytes] },
    'tally.answers': { $add: ['$tally.answers', { $cond: [isNew, 1, 0] }] },
    // The board of the exam shows both. They are in no index, so a save costs the same.
    lastSeenAt: '$$NOW',
    lastSavedAt: '$$NOW',
  };
}

/** Returns the event as an expression. Its metadata is JSON text around a version that only the update knows. */
function saveEvent(write: AnswerWrite): Document {
  const version = { $add: [{ $ifNull: [`$answers.${answerKeyOf(write.paperIndex)}.serverVersion`, 0] }, 1] };
  // Split at the quoted name as well: inside JSON text a quote is always escaped, so no id can imitate it.
  const name = '"serverVersion":';
  const [before = '', after = ''] = JSON.stringify(write.metadata(VERSION_MARK)).split(`${name}${VERSION_MARK}`);
  return {
    seq: { $add: ['$eventSeq', 1] },
    type: 'SAVE_ANSWER',
    metadata: { $concat: [literal(before + name), { $toString: version }, literal(after)] },
    createdAt: EVENT_TIME,
  };
}

async function storeText(mongo: Mongo, write: AnswerWrite, answerKey: string, version: number, session: ClientSession) {
  const { _id: attemptId } = write.attempt;
  const text = write.content.text ?? '';
  await textRows(mongo).insertOne(
    { _id: textRowId(attemptId, answerKey, version), attemptId, answerKey, text },
    { session },
  );
}

async function deleteText(mongo: Mongo, attemptId: string, answerKey: string, version: number, session: ClientSession) {
  await textRows(mongo).deleteOne({ _id: textRowId(attemptId, answerKey, version), attemptId }, { session });
}
