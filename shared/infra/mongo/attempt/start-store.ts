import { MongoBulkWriteError } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { shareLookups } from '#infra/mongo/shared-reads.ts';
import { gather, type Part } from '#infra/process/gather.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { attempts } from './collections.ts';
import { type EarlierAttempt, earlierAmong } from './earlier-attempts.ts';
import { type NoteExam, openExamNotes } from './exams.ts';
import { type InsertResult, insertAttempt, isAlone, type Reliance } from './insert-attempt.ts';
import { type BindingRelease, openBindingReleases } from './release.ts';
import { type Starter, type StartFacts, startFactsOf } from './start-facts.ts';

/**
 * The reads and writes of starts. Starts of the same moment share their commands: when a whole class begins, one read serves 25 of them. Each
 * read begins after its start has asked for it, so a start sees what it would have seen alone.
 */
export interface StartStore {
  /** Returns all attempts of one student at one exam, oldest first. */
  earlier(of: Starter): Promise<EarlierAttempt[]>;
  facts(of: Starter): Promise<StartFacts>;
  bindingRelease: BindingRelease;
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
  return {
    earlier: shareLookups((starters: readonly Starter[]) => earlierAmong(mongo, starters)),
    facts: shareLookups((starters: readonly Starter[]) => startFactsOf(mongo, starters)),
    bindingRelease: openBindingReleases(mongo),
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
