import { attempts, eventRows, type ReleaseRow, releases } from '#infra/mongo/attempt/collections.ts';
import { openGradingPapers } from '#infra/mongo/attempt/corrections.ts';
import { openPapers } from '#infra/mongo/attempt/papers.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { COMMANDS, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { type Attempt, isVoided } from '#shared/attempt/attempt.ts';
import { gradingKey, releaseKey } from '#shared/attempt/commands.ts';
import { maxScoreOf } from '#shared/attempt/correction.ts';
import { EVENT_TAIL_LIMIT } from '#shared/attempt/limits.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { totalsOf } from '#shared/attempt/scoring/grade-attempt.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { BOUND, findingOf, type Invariant, inParts, liveByKey, SAMPLE } from './invariant.ts';

/** Graded attempts whose totals are computed again. Their answers are read whole, so there are fewer. */
const RECOMPUTED = 500;
/** Attempts of one exam that are read behind a release. */
const OF_EXAM = 1_000;
/** Time for which a release may be walking the attempts of its exam. */
const RELEASED_WITHIN_MS = 10 * MINUTE;
const PAPER_BYTES = 32 * 1024 * 1024;

const TOTALS = { totalScore: 1, correctCount: 1, wrongCount: 1, pendingManualCount: 1 } as const;

/** Fields of an attempt that decide about its notices. */
const NOTICED = { examId: 1, studentId: 1, organizationId: 1, exam: 1, erasedAt: 1, round: 1, voidedAt: 1 } as const;

const FOR_DEVELOPERS = 'report it with the trace of an example, and keep its logs';

/** Returns the submitted attempts and their grading commands, by key. */
async function submittedWithGrading(mongo: Mongo) {
  const rows = await submitted(mongo);
  const keys = rows.map(gradingKey);
  return { rows, commands: await liveByKey(mongo, COMMANDS, keys) };
}

/** Promises about attempts. */
export const ATTEMPT_INVARIANTS: readonly Invariant[] = [
  {
    name: 'a submitted attempt has a grading command',
    remedy: 'restore the grading command from a backup: until then the attempt stays submitted',
    async find(mongo) {
      const { rows, commands } = await submittedWithGrading(mongo);
      return findingOf(rows, (row) => !commands.has(gradingKey(row)));
    },
  },
  {
    name: 'a settled grading command has graded its attempt',
    remedy: FOR_DEVELOPERS,
    async find(mongo) {
      const { rows, commands } = await submittedWithGrading(mongo);
      return findingOf(rows, (row) => commands.get(gradingKey(row))?.status === 'DONE');
    },
  },
  {
    name: 'a graded attempt has all its totals',
    remedy: FOR_DEVELOPERS,
    async find(mongo) {
      const fields = { submittedAt: 1, ...TOTALS } as const;
      return findingOf(await newestGraded(mongo, fields), ({ totalScore, ...attempt }) => {
        const counts = [attempt.correctCount, attempt.wrongCount, attempt.pendingManualCount];
        return [totalScore, ...counts].some((value) => value == null) || attempt.submittedAt === null;
      });
    },
  },
  {
    name: 'the totals of a graded attempt are those of its answers',
    remedy: FOR_DEVELOPERS,
    async find(mongo) {
      const fields = {
        paperId: 1,
        answers: 1,
        examId: 1,
        startedAt: 1,
        scope: 1,
        erasedAt: 1,
        maxScore: 1,
        ...TOTALS,
      } as const;
      const rows = await newestGraded(mongo, fields, RECOMPUTED);
      const gradingPaper = openGradingPapers(mongo, openPapers(mongo, PAPER_BYTES));
      const wrong = new Set<string>();
      for (const stored of rows) {
        // The check of missing totals names it.
        if ((Object.keys(TOTALS) as (keyof typeof TOTALS)[]).some((name) => stored[name] == null)) continue;
        const paper = await gradingPaper(stored).catch(() => null);
        const totals = paper === null ? null : { ...totalsOf(paper, stored.answers), maxScore: maxScoreOf(paper) };
        const isRight =
          totals !== null &&
          (Object.keys(totals) as (keyof typeof totals)[]).every((name) => totals[name] === stored[name]);
        if (!isRight) wrong.add(stored._id);
      }
      return findingOf(rows, ({ _id }) => wrong.has(_id), RECOMPUTED);
    },
  },
  {
    name: 'the events of an attempt have no gap, and few are stored in it',
    remedy: FOR_DEVELOPERS,
    async find(mongo) {
      const fields = { eventSeq: 1, 'events.seq': 1 } as const;
      const open = await attempts(mongo)
        .find<WithEvents>(
          { status: 'IN_PROGRESS' },
          { ...BOUND, projection: fields, hint: 'overdue', sort: { deadlineAt: -1 }, limit: SAMPLE + 1 },
        )
        .toArray();
      const rows: WithEvents[] = [...open.slice(0, SAMPLE), ...(await newestGraded(mongo, fields))];
      const before = rows.flatMap(({ _id, events }) => {
        const first = events[0]?.seq ?? 1;
        return first > 1 ? [`${_id}:${first - 1}`] : [];
      });
      const stored = await inParts(before, (part) =>
        eventRows(mongo)
          .find({ _id: { $in: part } }, { ...BOUND, projection: { _id: 1 } })
          .toArray(),
      );
      const known = new Set(stored.map(({ _id }) => _id));
      const found = findingOf(rows, (row) => isGapped(row, known), 2 * SAMPLE);
      return { ...found, isCut: found.isCut || open.length > SAMPLE };
    },
  },
  {
    name: 'a release has reached the graded attempts of its exam within ten minutes',
    remedy: '`examhall trace exam:ID` of its exam shows the release; replay its command if that is dead',
    async find(mongo, now) {
      const rows = await releases(mongo)
        .find({}, { ...BOUND, projection: FIRST_STUDENT, sort: { _id: -1 }, hint: { _id: 1 }, limit: SAMPLE + 1 })
        .toArray();
      const read = rows.slice(0, SAMPLE);
      const commands = await liveByKey(
        mongo,
        COMMANDS,
        read.map(({ sourceEventId }) => releaseKey(sourceEventId)),
      );
      const late = read.filter(({ sourceEventId }) => {
        const command = commands.get(releaseKey(sourceEventId));
        return command === undefined || now - command.createdAt.getTime() > RELEASED_WITHIN_MS;
      });
      const missed: string[] = [];
      for (const release of late) {
        const { examId, number, organizationId } = release;
        const unreleased = await attempts(mongo)
          .find<Pick<Attempt, '_id' | 'status' | 'organizationId' | 'releasesSeen'>>(
            { examId, 'exam.resultsReleasedAt': null, ...(await onlyNamed(mongo, release)) },
            {
              ...BOUND,
              hint: 'unreleased',
              projection: { status: 1, organizationId: 1, releasesSeen: 1 },
              limit: OF_EXAM,
            },
          )
          .toArray();
        for (const attempt of unreleased) {
          const isBound = attempt.releasesSeen < number;
          const isItsOwn = organizationId === null || organizationId === attempt.organizationId;
          if (attempt.status === 'GRADED' && isBound && isItsOwn) missed.push(attempt._id);
        }
      }
      return { checked: read.length, broken: [...new Set(missed)], isCut: rows.length > SAMPLE };
    },
  },
  {
    name: 'a graded attempt whose result is visible has its notices',
    remedy: 'notify the student and the parents by hand, and report it',
    async find(mongo) {
      const rows = await newestGraded(mongo, NOTICED);
      const read = rows.slice(0, SAMPLE);
      // An exam that shows results after its close may announce none.
      const announced = read.filter(
        ({ exam, voidedAt }) =>
          voidedAt == null &&
          (exam.showResultMode === 'IMMEDIATE' ||
            (exam.showResultMode === 'MANUAL' && exam.resultsReleasedAt !== null)),
      );
      const wanted = announced.map((attempt) => ({
        _id: attempt._id,
        keys: gradeNotices(attempt).map(({ sourceEventId }) => sourceEventId),
      }));
      const notices = await liveByKey(
        mongo,
        NOTICES,
        wanted.flatMap(({ keys }) => keys),
      );
      const broken = wanted.filter(({ keys }) => keys.some((key) => !notices.has(key))).map(({ _id }) => _id);
      return { checked: read.length, broken, isCut: rows.length > SAMPLE };
    },
  },
  {
    name: 'no notice of a voided attempt waits',
    remedy: FOR_DEVELOPERS,
    async find(mongo) {
      const rows = await newestGraded(mongo, NOTICED);
      const keysOf = (attempt: Attempt) => gradeNotices(attempt).map(({ sourceEventId }) => sourceEventId);
      const notices = await liveByKey(mongo, NOTICES, rows.filter(isVoided).flatMap(keysOf));
      const waits = (key: string) => notices.get(key)?.status === 'PENDING';
      return findingOf(rows, (attempt) => isVoided(attempt) && keysOf(attempt).some(waits));
    },
  },
];

/** A release to some may name ten thousand students. One of them tells that it does. */
const FIRST_STUDENT = { studentIds: { $slice: 1 } } as const;

/** Returns the filter of the students of a release to some, and an empty one of a release to all. */
async function onlyNamed(mongo: Mongo, { _id, examId, studentIds }: ReleaseRow) {
  if (studentIds === undefined) return {};
  const whole = await releases(mongo).findOne({ _id, examId }, { ...BOUND, projection: { studentIds: 1 } });
  return { studentId: { $in: [...(whole?.studentIds ?? [])] } };
}

function submitted(mongo: Mongo): Promise<Pick<Attempt, '_id' | 'round'>[]> {
  return attempts(mongo)
    .find<Pick<Attempt, '_id' | 'round'>>(
      { status: 'SUBMITTED' },
      { ...BOUND, projection: { round: 1 }, hint: 'ungraded_of_exam', limit: SAMPLE + 1 },
    )
    .toArray();
}

/** Returns the graded attempts that were submitted last, one more than `sample`. Those of erased students are left out. */
function newestGraded(mongo: Mongo, projection: Readonly<Record<string, 1>>, sample = SAMPLE): Promise<Attempt[]> {
  return attempts(mongo)
    .find(
      { status: 'GRADED', erasedAt: null },
      { ...BOUND, projection, hint: 'retention', sort: { submittedAt: -1 }, limit: sample + 1 },
    )
    .toArray();
}

type WithEvents = Pick<Attempt, '_id' | 'eventSeq'> & { events: { seq: number }[] };

/** Returns true if the tail is too long or has a gap, or if the row before it is missing. */
function isGapped({ _id, events, eventSeq }: WithEvents, rows: ReadonlySet<string>): boolean {
  const first = eventSeq - events.length + 1;
  if (events.length === 0 || events.length > EVENT_TAIL_LIMIT) return true;
  if (events.some(({ seq }, at) => seq !== first + at)) return true;
  return first > 1 && !rows.has(`${_id}:${first - 1}`);
}
