import type { ClientSession, Collection } from 'mongodb';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { Mongo } from './connect.ts';

/** Append-only collection of the actions of operators and their reasons. */
export const OPERATOR_AUDIT = 'operator_audit';

/** The operator, the reason and the time of an action; `now` is MongoDB's time in Unix milliseconds. */
export interface OperatorAct {
  operator: string;
  reason: string;
  now: number;
}

export interface AccountLine {
  action: `account.${string}`;
  /**
   * Account id; throttle id if there is no account; file name for an import. Never an e-mail address, because audit rows are
   * stored for ever.
   */
  subject: string;
  detail: Readonly<Record<string, string | number | null>>;
}

/** A replay of a dead command, with the error of which it died. */
export interface ReplayLine extends Pick<Command, 'queue' | 'subject' | 'lastError'> {
  action: 'dead.replay';
  commandId: string;
  /** The operator has consented to charge an answer that no request returns any longer. */
  chargeSuperseded?: true;
}

type AuditLine = AccountLine | ReplayLine;
type AuditRow = AuditLine & { _id: string; operator: string; reason: string; at: Date };

/** Returns the collection of the audit. */
export function operatorAudit(mongo: Mongo): Collection<AuditRow> {
  return mongo.db.collection<AuditRow>(OPERATOR_AUDIT);
}

/** Inserts one line of the audit, in the caller's transaction or by itself. */
export async function writeAudit(
  mongo: Mongo,
  { operator, reason, now }: OperatorAct,
  line: AuditLine,
  session?: ClientSession,
): Promise<void> {
  const row = { _id: newId(now), ...line, operator, reason, at: new Date(now) };
  await operatorAudit(mongo).insertOne(row, session === undefined ? {} : { session });
}
