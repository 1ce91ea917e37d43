import type { Correction, RegradeState } from '#shared/attempt/correction.ts';
import { JsonPart } from '#shared/kernel/json.ts';

/** A regrade as it is stored. */
interface StoredRegrade {
  _id: string;
  state: RegradeState;
  changes: readonly Correction[];
  by: { id: string };
  reason: string;
  createdAt: Date;
  appliedAt: Date | null;
  attempts: number;
  changed: number;
  up: number;
  down: number;
}

/** Returns a regrade for a reply. */
export function regradeForReply({ _id, state, changes, by, reason, createdAt, appliedAt, ...counts }: StoredRegrade) {
  const { attempts, changed, up, down } = counts;
  return {
    id: _id,
    state,
    changes: changes.map(({ questionVersionId, ...change }) => ({
      ...change,
      ...(questionVersionId === null ? {} : { questionVersionId }),
    })),
    attempts,
    changed,
    up,
    down,
    by: by.id,
    reason,
    createdAt: createdAt.toISOString(),
    appliedAt: appliedAt?.toISOString() ?? null,
  };
}

/** A line of a regrade as it is stored. */
export interface StoredLine {
  attemptId: string;
  studentId: string;
  studentInfo: string | null;
  before: { totalScore: number | null; maxScore: number };
  after: { totalScore: number; maxScore: number };
  questions: readonly { questionId: string; before: number | null; after: number | null }[];
}

/** Returns a line of a regrade for a reply. */
export function lineForReply({ attemptId, studentId, studentInfo, before, after, questions }: StoredLine) {
  const info = studentInfo === null ? null : new JsonPart(studentInfo);
  return { attemptId, studentId, studentInfo: info, before, after, questions };
}
