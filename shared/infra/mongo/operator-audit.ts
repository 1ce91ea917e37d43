import type { ClientSession, Collection } from 'mongodb';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { Mongo } from './connect.ts';

/** What operators did, and why; append-only. */
export const OPERATOR_AUDIT = 'operator_audit';

/** Who acts, and why; `now` is MongoDB's time (Unix milliseconds). */
export interface OperatorAct {
  operator: string;
  reason: string;
  now: number;
}

export interface AccountLine {
  action: `account.${string}`;
  /** Id of an account, or of a throttle where there is none; of an import, its file. No address: the audit is kept for ever. */
  subject: string;
  detail: Readonly<Record<string, string | number | null>>;
}

/** That a dead command was run again, and what it had died of. */
export interface ReplayLine extends Pick<Command, 'queue' | 'subject' | 'lastError'> {
  action: 'dead.replay';
  commandId: string;
}

type AuditLine = AccountLine | ReplayLine;
type AuditRow = AuditLine & { _id: string; operator: string; reason: string; at: Date };

export function operatorAudit(mongo: Mongo): Collection<AuditRow> {
  return mongo.db.collection<AuditRow>(OPERATOR_AUDIT);
}

/** One line of the audit, in the caller's transaction or by itself. */
export async function writeAudit(
  mongo: Mongo,
  { operator, reason, now }: OperatorAct,
  line: AuditLine,
  session?: ClientSession,
): Promise<void> {
  const row = { _id: newId(now), ...line, operator, reason, at: new Date(now) };
  await operatorAudit(mongo).insertOne(row, session === undefined ? {} : { session });
}
