import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { ListedAttempt } from '#shared/attempt/redact.ts';
import { attempts } from './collections.ts';

const PROJECTION = {
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
} as const satisfies Partial<Record<keyof ListedAttempt, 1>>;

/** The newest attempts of one student, newest start first, without answers, events and paper. */
export async function listAttempts(mongo: Mongo, studentId: string, limit: number): Promise<ListedAttempt[]> {
  const found = await attempts(mongo)
    .find({ studentId }, { projection: PROJECTION, sort: { startedAt: -1 }, limit, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  return found as ListedAttempt[];
}
