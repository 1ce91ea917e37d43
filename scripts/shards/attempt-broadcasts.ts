import type { Broadcast } from './judge.ts';

/**
 * Statements on attempts, their rows and seats that go to every shard. A statement on one attempt names its student. Those below search for
 * attempts of any student, or for seats on any link.
 */
export const ATTEMPT_BROADCASTS: readonly Broadcast[] = [
  {
    collection: 'attempts',
    command: 'find',
    shape: '_id',
    why: "teachers, admins and services name an attempt by its id; a student who named another student's attempt gets 403, not 404",
    rate: 'one for each read of a teacher or admin, handoff, refused student, and command of an earlier version',
    files: ['shared/infra/mongo/attempt/attempts.ts'],
  },
  {
    collection: 'attempts',
    command: 'find',
    shape: '_id $gt, exam.resultsReleasedAt, examId',
    why: 'a release binds attempts of an exam, of any student',
    rate: 'one for each 1,000 attempts of a release, and one after each chunk that another write has changed',
    files: ['shared/infra/mongo/attempt/release.ts'],
  },
  {
    collection: 'attempts',
    command: 'find',
    shape: 'deadlineAt $lte, status',
    why: 'the sweep finds overdue attempts of any student',
    rate: 'one for each UPKEEP_INTERVAL_MS',
    files: ['shared/infra/mongo/attempt/submit.ts'],
  },
  {
    collection: 'attempts',
    command: 'find',
    shape: 'erasedAt, status, submittedAt $lt',
    why: 'the retention finds old attempts of any student',
    rate: 'one for each UPKEEP_INTERVAL_MS, and only with a retention',
    files: ['shared/infra/mongo/person/retention.ts'],
  },
  {
    collection: 'attempts',
    command: 'find',
    shape: 'erasedAt, status, submittedAt $gte $lt',
    why: 'the retention finds old attempts of any student',
    rate: 'one for each 100 attempts, at most one a second, and only with a retention',
    files: ['shared/infra/mongo/person/retention.ts'],
  },
  {
    collection: 'attempts',
    command: 'aggregate',
    shape: 'status $in',
    why: 'the summary counts the attempts of all students',
    rate: 'one for each admin summary',
    files: ['shared/infra/mongo/attempt/attempts.ts'],
  },
  {
    collection: 'attempt_link_seats',
    command: 'find',
    shape: 'studentId',
    why: 'the erasure and the export of a person find the seats on all links',
    rate: 'one for each export, two for each erasure',
    files: ['shared/infra/mongo/person/find.ts', 'shared/infra/mongo/person/export.ts'],
  },
  {
    collection: 'attempt_link_seats',
    command: 'aggregate',
    shape: 'studentId',
    why: 'the erasure of a person counts the seats on all links',
    rate: 'one for each export or erasure',
    files: ['shared/infra/mongo/person/find.ts'],
  },
];
