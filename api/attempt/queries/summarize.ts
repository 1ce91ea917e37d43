import type { AttemptDeps } from '#api/attempt/deps.ts';
import type { Reply } from '#api/route.ts';
import { type AttemptCount, countAttempts } from '#infra/mongo/attempt/attempts.ts';

/** Counts for admin dashboards, from this service's own data only. */
export async function summarizeAttempts(deps: AttemptDeps): Promise<Reply> {
  const counts = await countAttempts(deps.mongo);
  const sum = (field: Exclude<keyof AttemptCount, 'status' | 'submittedBy'>, only: Partial<AttemptCount> = {}) =>
    counts
      .filter((count) => Object.entries(only).every(([name, value]) => count[name as keyof AttemptCount] === value))
      .reduce((total, count) => total + count[field], 0);
  const data = {
    attempts: {
      total: sum('attempts'),
      byStatus: {
        IN_PROGRESS: sum('attempts', { status: 'IN_PROGRESS' }),
        SUBMITTED: sum('attempts', { status: 'SUBMITTED' }),
        GRADED: sum('attempts', { status: 'GRADED' }),
      },
      bySubmitSource: {
        STUDENT: sum('attempts', { submittedBy: 'STUDENT' }),
        TIMEOUT: sum('attempts', { submittedBy: 'TIMEOUT' }),
        NONE: sum('attempts', { submittedBy: null }),
      },
      withScores: sum('scored'),
      withAccessLink: sum('linked'),
      withIdempotencyKey: sum('keyed'),
      withResultsReleased: sum('released'),
    },
    rows: {
      questions: sum('questions'),
      answers: sum('answers'),
      gradedAnswers: sum('graded'),
      events: sum('events'),
    },
  };
  return { status: 200, data };
}
