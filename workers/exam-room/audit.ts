import type { ClientSession } from 'mongodb';
import { type AuditRow, appendAudit, type ExamActLine, logActs } from '#infra/mongo/operator-audit.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import type { Effects, WorkerDeps } from '#workers/actor.ts';

/** The examiner of an act, and the reason. */
interface Grounds {
  by: Examiner;
  reason: string;
}

/**
 * Returns the end of an act: its last changes with its line of the audit, in one transaction. Afterwards the line is logged, and `rings`
 * wakes other workers.
 */
export function audited(
  { mongo, now, log }: WorkerDeps,
  { by, reason }: Grounds,
  line: ExamActLine,
  { changes, rings }: { changes?: (session: ClientSession) => Promise<void>; rings?: () => void } = {},
): { effects: Effects; after: () => void } {
  let row: AuditRow | undefined;
  return {
    async effects(session) {
      await changes?.(session);
      row = await appendAudit(mongo, { operator: by.id, reason, now: now() }, line, session);
    },
    after() {
      if (row !== undefined) logActs(log)(row);
      rings?.();
    },
  };
}
