import { LRUCache } from 'lru-cache';
import type { ClientSession, Collection, UpdateFilter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { HOUR, LAST_INSTANT } from '#shared/kernel/time.ts';

/** An exam of which an attempt was started, for the list of exams. `_id` is that of the exam. */
export interface ExamRow {
  _id: string;
  title: string;
  subject: string | null;
  gradeLevel: string | number | null;
  organizationId: string | null;
  firstStartedAt: Date;
  /** No deadline of an attempt is later. */
  activeUntil: Date;
  /** Teachers in the scope of an attempt. */
  examinerIds: string[];
  /** The teachers of each distinct scope, as JSON. The attempts of an exam whose scopes all name a teacher are counted in an index. */
  scopes: string[];
}

export const EXAMS = 'attempt_exams';

export const exams = (mongo: Mongo): Collection<ExamRow> => mongo.db.collection(EXAMS);

/** Exams whose rows a process knows to be stored. */
const REMEMBERED = 10_000;

type Noted = Pick<Attempt, 'examId' | 'organizationId' | 'startedAt' | 'deadlineAt' | 'scope'> & {
  exam: Pick<Attempt['exam'], 'title' | 'subject' | 'gradeLevel'>;
};

/** Stores the row of the exam of a new attempt, before the attempt. A process that has stored it sends no command. */
export type NoteExam = (attempt: Noted) => Promise<void>;

/** Opens the memory of a process that stores rows in this way. */
export function openExamNotes(mongo: Mongo, store: typeof noteExam = noteExam): NoteExam {
  const known = new LRUCache<string, { until: number; stored: Promise<void> }>({ max: REMEMBERED });
  return (attempt) => {
    const { title, subject, gradeLevel } = attempt.exam;
    const key = JSON.stringify([attempt.examId, attempt.organizationId, title, subject, gradeLevel, scopeOf(attempt)]);
    const until = activeUntil(attempt.deadlineAt).getTime();
    const already = known.get(key);
    if (already !== undefined && already.until >= until) return already.stored;
    const stored = store(mongo, attempt).catch((error: unknown) => {
      known.delete(key);
      throw error;
    });
    known.set(key, { until, stored });
    return stored;
  };
}

/** Stores or widens the row of an exam of which an attempt starts. A repeat changes nothing. */
export function noteExam(mongo: Mongo, attempt: Noted): Promise<void> {
  return upsert(mongo, attempt, { $set: copiedOf(attempt) });
}

/**
 * Widens the row of the exam of an attempt that started earlier, or stores it. A front door of the release before has stored none. The title
 * stays, because that of a later start is newer.
 */
export function completeExam(mongo: Mongo, attempt: Noted): Promise<void> {
  return upsert(mongo, attempt, { $setOnInsert: copiedOf(attempt) });
}

/** Keeps an exam among those that may run, in the transaction that moves a deadline of it. An exam without a row gets one by a grade. */
export async function keepActive(
  mongo: Mongo,
  { examId, deadlineAt }: Pick<Attempt, 'examId' | 'deadlineAt'>,
  session: ClientSession,
): Promise<void> {
  await exams(mongo).updateOne({ _id: examId }, { $max: { activeUntil: activeUntil(deadlineAt) } }, { session });
}

function copiedOf({ organizationId, exam: { title, subject, gradeLevel } }: Noted) {
  return { title, subject, gradeLevel, organizationId };
}

async function upsert(mongo: Mongo, attempt: Noted, copied: UpdateFilter<ExamRow>): Promise<void> {
  const { examId: _id, startedAt, deadlineAt } = attempt;
  const update: UpdateFilter<ExamRow> = {
    ...copied,
    $min: { firstStartedAt: startedAt },
    $max: { activeUntil: activeUntil(deadlineAt) },
    $addToSet: { examinerIds: { $each: examinersOf(attempt) }, scopes: scopeOf(attempt) },
  };
  for (let pass = 1; ; pass++) {
    try {
      await exams(mongo).updateOne({ _id }, update, { upsert: true, maxTimeMS: QUERY_LIMIT_MS });
      return;
    } catch (error) {
      // Another process has inserted the row meanwhile.
      if (!isDuplicateKey(error) || pass === 2) throw error;
    }
  }
}

function examinersOf({ scope }: Pick<Attempt, 'scope'>): string[] {
  const named = [...(scope.createdById === null ? [] : [scope.createdById]), ...scope.resultViewerTeacherIds];
  return [...new Set(named)].sort();
}

function scopeOf(attempt: Pick<Attempt, 'scope'>): string {
  return JSON.stringify(examinersOf(attempt));
}

/** Returns an hour that is at least one hour after the deadline: most starts of an exam then have the same, and write nothing. */
function activeUntil(deadlineAt: Date | null): Date {
  if (deadlineAt === null) return new Date(LAST_INSTANT);
  return new Date(Math.min((Math.ceil(deadlineAt.getTime() / HOUR) + 1) * HOUR, LAST_INSTANT));
}
