import type { Mongo } from '#infra/mongo/connect.ts';
import { type AccountLine, type OperatorAct, operatorAudit, writeAudit } from '#infra/mongo/operator-audit.ts';
import { tombstoneId } from '#infra/mongo/person/erased-persons.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { BOUND } from './reading.ts';
import type { Trace } from './trace.ts';

/** Time in which one operator's reads of one person are one row of the audit. A console reads a trace every few seconds. */
const ONE_ROW_MS = HOUR;

type Reader = Pick<OperatorAct, 'operator' | 'now' | 'committed'> & { reason?: string };

/**
 * Appends the read of a person's trace to the audit, under a digest of the id, unless this operator has read it within the hour. The
 * trace of an object, such as an attempt, is not audited: it shows ids, states and times, as a dead letter does.
 */
export function auditTrace(
  mongo: Mongo,
  act: Reader,
  { subject, person, lines }: Pick<Trace, 'subject' | 'lines'> & { person: string },
): Promise<void> {
  return auditRead(mongo, act, person, { action: 'account.trace', detail: { subject, lines: lines.length } });
}

/** Appends the read of a student's attempts at one exam, as `auditTrace` does. A page of all students is not audited. */
export function auditExamAttempts(
  mongo: Mongo,
  act: Reader,
  { student, attempts }: { student: string; attempts: number },
): Promise<void> {
  return auditRead(mongo, act, student, { action: 'account.attempts', detail: { attempts } });
}

async function auditRead(
  mongo: Mongo,
  { operator, now, ...act }: Reader,
  person: string,
  { action, detail }: Pick<AccountLine, 'action' | 'detail'>,
): Promise<void> {
  const digest = await tombstoneId(mongo, person);
  const recent = await operatorAudit(mongo).findOne(
    { subject: digest, at: { $gt: new Date(now - ONE_ROW_MS) }, operator, action },
    { ...BOUND, hint: 'subject_in_pages', projection: { _id: 1 } },
  );
  if (recent !== null) return;
  await writeAudit(mongo, { reason: 'none given', ...act, operator, now }, { action, subject: digest, detail });
}
