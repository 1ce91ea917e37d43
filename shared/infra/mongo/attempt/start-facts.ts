import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { ERASED_PERSONS, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { literal } from '#infra/mongo/guarded-update.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { TimeGrant } from '#shared/attempt/extra-time.ts';
import { type ExamActRow, examActs, RELEASES } from './collections.ts';

/** Facts about a student and an exam that others have stored, and on which a start depends. */
export interface StartFacts {
  /** The student is erased, or is being erased. */
  isErased: boolean;
  /** Number of the exam's newest release, or 0. */
  newestRelease: number;
  /** Time that examiners have given the student at the exam, oldest grant first. */
  granted: readonly TimeGrant[];
}

/** A student who starts an exam. */
export type Starter = Pick<Attempt, 'examId' | 'studentId'>;

type Grant = ExamActRow & { minutes: number };
type Found = { _id: string; tombstone: true } | { _id: string; newest: number } | Grant;

/**
 * Returns the facts of each of these starts, by one command: a class that begins asks for them twice, before and after its inserts. The rows
 * of three collections come one after the other, each found by its index.
 */
export async function startFactsOf(mongo: Mongo, starters: readonly Starter[]): Promise<StartFacts[]> {
  const exams = [...new Set(starters.map(({ examId }) => examId))];
  const students = [...new Set(starters.map(({ studentId }) => studentId))];
  const digests = new Map(
    await Promise.all(students.map(async (id): Promise<[string, string]> => [id, await tombstoneId(mongo, id)])),
  );

  const found = await examActs(mongo)
    .aggregate<Found>(
      [
        ...grantsTo(exams, students),
        { $unionWith: { coll: RELEASES, pipeline: newestOf(exams) } },
        { $unionWith: { coll: ERASED_PERSONS, pipeline: tombstonesAmong([...digests.values()]) } },
      ],
      { hint: 'of_student', maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();

  const grants = found.filter((row): row is Grant => 'minutes' in row).sort(byAge);
  const newest = new Map(found.flatMap((row) => ('newest' in row ? [[row._id, row.newest] as const] : [])));
  const erased = new Set(found.flatMap((row) => ('tombstone' in row ? [row._id] : [])));
  return starters.map(({ examId, studentId }) => ({
    isErased: erased.has(digests.get(studentId) ?? ''),
    newestRelease: newest.get(examId) ?? 0,
    granted: grants.filter((grant) => grant.examId === examId && (grant.studentIds?.includes(studentId) ?? true)),
  }));
}

/** The grants to all or to one of these students. A grant may name ten thousand students, of whom these are few. */
function grantsTo(exams: readonly string[], students: readonly string[]) {
  const these = { $setIntersection: ['$studentIds', literal(students)] };
  return [
    { $match: { examId: { $in: exams }, kind: 'EXTRA_TIME', studentIds: { $in: [null, ...students] } } },
    {
      $project: {
        examId: 1,
        minutes: 1,
        by: 1,
        reason: 1,
        at: 1,
        studentIds: { $cond: [{ $isArray: '$studentIds' }, these, null] },
      },
    },
  ];
}

function newestOf(exams: readonly string[]) {
  return [{ $match: { examId: { $in: exams } } }, { $group: { _id: '$examId', newest: { $max: '$number' } } }];
}

function tombstonesAmong(digests: readonly string[]) {
  return [{ $match: { _id: { $in: digests } } }, { $project: { tombstone: { $literal: true } } }];
}

function byAge(a: Grant, b: Grant): number {
  return a.at.getTime() - b.at.getTime() || (a._id < b._id ? -1 : 1);
}
