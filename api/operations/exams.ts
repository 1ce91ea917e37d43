import { operator } from '#api/http/guards/tokens.ts';
import type { Call, Reply, Route } from '#api/route.ts';
import { type BoardPage, boardOf } from '#infra/mongo/exam-room/board.ts';
import { auditExamAttempts } from '#infra/mongo/operations/audit.ts';
import { readExam, VIEW_FRESH_MS } from '#infra/mongo/operations/exam.ts';
import { readExamAttempts, type WantedPage } from '#infra/mongo/operations/exam-attempts.ts';
import { logActs } from '#infra/mongo/operator-audit.ts';
import { shareRunsBy } from '#infra/process/health.ts';
import type { Board } from '#shared/generated/exam-room.ts';
import type { ExamAttemptList, ExamAttemptsQuery } from '#shared/generated/operations.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { type ExamWalk, PAGE_ATTEMPTS, readWalkCursor } from '#shared/operations/exam-walk.ts';
import { FOLLOWING, redisAnswers, type TraceDeps } from './trace.ts';

/** Returns the routes by which operators watch an exam. */
export function examRoutes(deps: TraceDeps): Route[] {
  const shared = {
    method: 'GET',
    tag: FOLLOWING,
    params: { examId: 'Id of the exam' },
    guards: [operator(deps)],
    errors: ['EXAM_NOT_FOUND'],
  } as const;
  return [
    {
      ...shared,
      path: '/v1/ops/exams/:examId',
      operation: 'getExam',
      summary: 'Get counts of the attempts and notices of an exam, and its releases',
      description:
        'Counts the attempts of an exam and its notices, and lists its newest releases. An exam is known from its first start or release on.',
      replies: [{ status: 200, schema: 'operations/exam', description: 'Counts and releases' }],
      handle: (call: Call) => getExam(deps, call),
    },
    {
      ...shared,
      path: '/v1/ops/exams/:examId/attempts',
      operation: 'listExamAttempts',
      summary: 'List the attempts of an exam, each once, while others start and change',
      description:
        'Walks the attempts of an exam in pages, each attempt exactly once, whatever starts or changes meanwhile. `nextCursor` of a reply is the `cursor` of the next one; a walk keeps its exam, `status` and `student`. The read is a row of the audit, once an hour for an operator and an exam, or a student.',
      query: 'operations/exam-attempts-query',
      replies: [{ status: 200, schema: 'operations/exam-attempt-list', description: 'A page of attempts' }],
      handle: (call: Call<never, ExamAttemptsQuery>) => listAttempts(deps, call),
    },
  ];
}

async function getExam({ mongo, now }: TraceDeps, { params }: Call): Promise<Reply | Rejection> {
  const exam = await readExam(mongo, params.examId ?? '', now());
  return exam === null ? { rejected: 'EXAM_NOT_FOUND' } : { status: 200, data: exam };
}

async function listAttempts(
  deps: TraceDeps,
  { params, query, identity, requestId }: Call<never, ExamAttemptsQuery>,
): Promise<Reply | Rejection> {
  const walk: ExamWalk = { examId: params.examId ?? '', status: query.status ?? null, student: query.student ?? null };
  const after = query.cursor == null ? null : readWalkCursor(walk, query.cursor);
  if (query.cursor != null && after === null) {
    const message = 'must be a `nextCursor` of a reply to the same exam, `status` and `student`';
    return { rejected: 'VALIDATION_FAILED', details: [{ path: '/cursor', message }] };
  }
  const page = { ...walk, after, limit: query.limit ?? PAGE_ATTEMPTS };
  const data = await readAttemptsFor(deps, page, { operator: identity.operator ?? 'unknown', requestId });
  if (data === null) return { rejected: 'EXAM_NOT_FOUND' };
  return { status: 200, data };
}

/** Reads a page of an exam's attempts. Returns null if nothing of the exam is stored. */
type ReadPage = (page: WantedPage) => Promise<ExamAttemptList | null>;

function attemptReader({ mongo, now, pingRedis }: Pick<TraceDeps, 'mongo' | 'now' | 'pingRedis'>): ReadPage {
  return async (page) => {
    const redis = (await redisAnswers(pingRedis)) ? 'up' : 'down';
    return readExamAttempts(mongo, page, { now: now(), redis });
  };
}

/** Opens a reader for the console: the viewers of one page share one reading. */
export function openAttemptReader(deps: Parameters<typeof attemptReader>[0]): ReadPage {
  return shareRunsBy(VIEW_FRESH_MS, attemptReader(deps));
}

/** Deps of a read that is logged and audited. */
type Noting = Pick<TraceDeps, 'mongo' | 'log' | 'now'>;

/** The operator of a read, and the request. */
interface Reader {
  operator: string;
  requestId: string;
}

/** Reads a page of an exam's attempts for an operator, logs the read, and audits it. Null: nothing of the exam is stored. */
export async function readAttemptsFor(
  deps: Noting & Pick<TraceDeps, 'pingRedis'>,
  page: WantedPage,
  by: Reader,
  read: ReadPage = attemptReader(deps),
): Promise<ExamAttemptList | null> {
  const found = await read(page);
  if (found !== null) await noteRead(deps, page, found.attempts.length, by);
  return found;
}

async function noteRead(
  { mongo, log, now }: Noting,
  of: Pick<ExamWalk, 'examId' | 'student'>,
  attempts: number,
  { operator: by, requestId }: Reader,
): Promise<void> {
  log.info({ requestId, operator: by, examId: of.examId, attempts }, 'attempts of an exam read');
  const committed = logActs(log, { requestId });
  await auditExamAttempts(mongo, { operator: by, now: now(), committed }, of, attempts);
}

/** Reads a page of the board of an exam for an operator. */
export type ReadBoard = (page: BoardPage, by: Reader) => Promise<Board>;

/** Operators see the board as an ADMIN does: all attempts of the exam. */
const OPERATOR = { id: 'operator', role: 'ADMIN' } as const;

/** Opens the board for the console. The viewers of one page share one reading, and the read of each is logged and audited. */
export function openBoardReader(deps: Noting): ReadBoard {
  const read = shareRunsBy(VIEW_FRESH_MS, (page: BoardPage) =>
    boardOf(deps.mongo, { ...page, by: OPERATOR, now: new Date(deps.now()) }),
  );
  return async (page, by) => {
    const found = await read(page);
    await noteRead(deps, { examId: page.examId, student: null }, found.rows.length, by);
    return found;
  };
}
