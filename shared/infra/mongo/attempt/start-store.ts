import { MongoBulkWriteError } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { erasedAmong } from '#infra/mongo/erased-persons.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { shareLookups, shareReads } from '#infra/mongo/shared-reads.ts';
import { gather, type Part } from '#infra/process/gather.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { TimeGrant } from '#shared/attempt/extra-time.ts';
import { type EarlierAttempt, earlierAmong } from './attempts.ts';
import { attempts } from './collections.ts';
import { type NoteExam, openExamNotes } from './exams.ts';
import { grantedAmong } from './extra-time.ts';
import { type InsertResult, insertAttempt, isAlone, type Reliance } from './insert-attempt.ts';
import { type BindingRelease, newestRelease, openBindingReleases } from './release.ts';

/**
 * The reads and writes of starts. Starts of the same moment share their commands: when a whole class begins, one read serves 25 of them. Each
 * read begins after its start has asked for it, so a start sees what it would have seen alone.
 */
export interface StartStore {
  /** Returns all attempts of one student at one exam, oldest first. */
  earlier(of: Pick<Attempt, 'examId' | 'studentId'>): Promise<EarlierAttempt[]>;
  isErased(studentId: string): Promise<boolean>;
  /** Returns the number of the exam's newest release, or 0. */
  newestRelease(examId: string): Promise<number>;
  bindingRelease: BindingRelease;
  /** Returns the time that examiners have given this student at this exam, oldest grant first. */
  extraTime(of: Pick<Attempt, 'examId' | 'studentId'>): Promise<TimeGrant[]>;
  /** Stores the row of the attempt's exam. It must be durable before the attempt, so that a list of exams shows each attempt. */
  noteExam: NoteExam;
  /** Inserts the attempt as `insertAttempt` does, with what it relies on. */
  insert(attempt: Attempt, reliance: Reliance): Promise<InsertResult>;
}

/** A start that writes its attempt alone. */
const ALONE: Reliance = { seat: null, voided: [] };

/** Opens the store of a front door. `budgetMs` is the time limit of one transaction. */
export function openStartStore(mongo: Mongo, budgetMs: number): StartStore {
  const insert = gather(async (group: readonly Attempt[]): Promise<Part<InsertResult>[]> => {
    const alone = (attempt: Attempt) => insertAttempt(mongo, attempt, ALONE, budgetMs);
    if (group.length === 1) return group.map(alone);
    const refused = await insertAll(mongo, group);
    return group.map((attempt, index) => (refused.has(index) ? alone(attempt) : { kind: 'inserted' }));
  });
  const isErased = shareLookups(async (ids: readonly string[]) => {
    const erased = await erasedAmong(mongo, ids);
    return ids.map((id) => erased.has(id));
  });
  return {
    earlier: shareLookups((wanted: readonly Pick<Attempt, 'examId' | 'studentId'>[]) => earlierAmong(mongo, wanted)),
    isErased,
    newestRelease: shareReads(
      (examId) => examId,
      (examId: string, session) => newestRelease(mongo, examId, session),
    ),
    bindingRelease: openBindingReleases(mongo),
    extraTime: shareLookups((wanted: readonly Pick<Attempt, 'examId' | 'studentId'>[]) => grantedAmong(mongo, wanted)),
    noteExam: openExamNotes(mongo),
    insert: (attempt, reliance) =>
      isAlone(reliance) ? insert(attempt) : insertAttempt(mongo, attempt, reliance, budgetMs),
  };
}

/** Inserts attempts, each for itself. Returns the positions of those that were refused, each of which finds out alone why. */
async function insertAll(mongo: Mongo, group: readonly Attempt[]): Promise<Set<number>> {
  try {
    await attempts(mongo).insertMany([...group], { ordered: false, maxTimeMS: QUERY_LIMIT_MS });
    return new Set();
  } catch (error) {
    const isOfRows = error instanceof MongoBulkWriteError && error.result.getWriteConcernError() === undefined;
    if (!isOfRows || isOutage(error)) throw error;
    return new Set(error.result.getWriteErrors().map(({ index }) => index));
  }
}
