import type { Mongo } from '#infra/mongo/connect.ts';
import { type OperatorAct, operatorAudit, writeAudit } from '#infra/mongo/operator-audit.ts';
import { tombstoneId } from '#infra/mongo/person/erased-persons.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { BOUND } from './reading.ts';
import type { Trace } from './trace.ts';

/** Time in which one operator's reads of one person's trace are one row of the audit. A console reads a trace every few seconds. */
const ONE_ROW_MS = HOUR;

/**
 * Appends the read of a person's trace to the audit, under a digest of the id, unless this operator has read it within the hour. The
 * trace of an object, such as an attempt, is not audited: it shows ids, states and times, as a dead letter does.
 */
export async function auditTrace(
  mongo: Mongo,
  { operator, now, ...act }: Pick<OperatorAct, 'operator' | 'now' | 'committed'> & { reason?: string },
  { subject, person, lines }: Pick<Trace, 'subject' | 'lines'> & { person: string },
): Promise<void> {
  const digest = tombstoneId(person);
  const since = new Date(now - ONE_ROW_MS);
  const recent = await operatorAudit(mongo).findOne(
    { subject: digest, at: { $gt: since }, operator, action: 'account.trace' },
    { ...BOUND, hint: 'of_subject', projection: { _id: 1 } },
  );
  if (recent !== null) return;
  const line = { action: 'account.trace', subject: digest, detail: { subject, lines: lines.length } } as const;
  await writeAudit(mongo, { reason: 'none given', ...act, operator, now }, line);
}
