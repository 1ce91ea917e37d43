import { attempts } from '#infra/mongo/attempt/collections.ts';
import { markSubmitted } from '#infra/mongo/attempt/submit.ts';
import { inCausalOrder, readIn } from '#infra/mongo/causal-read.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { findLive } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import type { Sitting } from '#shared/attempt/attempt.ts';
import { gradingKey } from '#shared/attempt/commands.ts';

/** Attempts whose texts are still needed: they are open, or their grading has not finished. */

/**
 * Returns those of these attempts of a student that must be graded before their texts are erased. A SUBMITTED attempt whose grading is
 * dead or missing need not wait: it stays without scores.
 */
export async function ungradedAmong(mongo: Mongo, studentId: string, ids: readonly string[]): Promise<string[]> {
  // A command whose shard does not show it yet must not count as missing.
  return inCausalOrder(mongo, async (session) => {
    const filter = { studentId, _id: { $in: [...ids] }, status: { $ne: 'GRADED' } } as const;
    const found = await attempts(mongo)
      .find(filter, { ...readIn(session), projection: { status: 1, round: 1 } })
      .toArray();
    const ungraded: string[] = [];
    for (const attempt of found) {
      const { _id, status } = attempt;
      const grading = status === 'SUBMITTED' ? await findLive(mongo, 'grading', gradingKey(attempt), session) : null;
      if (status === 'IN_PROGRESS' || grading?.status === 'PENDING') ungraded.push(_id);
    }
    return ungraded;
  });
}

/** Returns a student's open attempts. */
export async function openAttempts(mongo: Mongo, studentId: string): Promise<Sitting[]> {
  const found = await attempts(mongo)
    .find({ studentId, status: 'IN_PROGRESS' }, { projection: { studentId: 1, round: 1 } })
    .toArray();
  return found;
}

/** Submits these attempts as at the end of their time. The `grading` worker then grades what was answered. Returns how many it submitted. */
export async function endAttempts(
  mongo: Mongo,
  open: readonly Sitting[],
  { now, maxAttempts }: { now: number; maxAttempts: number },
): Promise<number> {
  let ended = 0;
  for (const attempt of open) {
    const wanted = { attempt, source: 'TIMEOUT', overdueByMs: null, maxAttempts, now } as const;
    const result = await markSubmitted(mongo, { ...wanted, budgetMs: FRONT_DOOR_BUDGET_MS });
    if (result.kind === 'submitted') ended += 1;
  }
  return ended;
}
