import type { Mongo } from '#infra/mongo/connect.ts';
import { tombstoneId } from '#infra/mongo/erased-persons.ts';
import {
  type AccountLine,
  actAsOperator,
  type OperatorAct,
  operatorAudit,
  type ReadLine,
} from '#infra/mongo/operator-audit.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { BOUND } from './reading.ts';
import type { Asked, Trace } from './trace.ts';

/** Time in which one operator's reads of one person or object are one row of the audit. A console reads every few seconds. */
const ONE_ROW_MS = HOUR;

type Reader = Pick<OperatorAct, 'operator' | 'now' | 'committed'> & { reason?: string };

/** Kinds of objects whose ids are stored as they are. Any other id may come from a client or a producer, and could name a person. */
const OWN_IDS = ['attempt', 'exam'];

/** Appends the read of a trace to the audit: of a person under a digest of the id, else of an object. */
export async function auditTrace(
  mongo: Mongo,
  act: Reader,
  { value }: Asked,
  { subject: kind, person, lines }: Pick<Trace, 'subject' | 'person' | 'lines'>,
): Promise<void> {
  const detail = { subject: kind, lines: lines.length };
  if (person !== null) {
    const subject = await tombstoneId(mongo, person);
    return auditRead(mongo, act, { action: 'account.trace', subject, detail });
  }
  const subject = OWN_IDS.includes(kind) ? value : await tombstoneId(mongo, value);
  return auditRead(mongo, act, { action: 'object.trace', subject, detail });
}

/** Appends the read of attempts at an exam to the audit: of one student under a digest of the id, else of the exam. */
export async function auditExamAttempts(
  mongo: Mongo,
  act: Reader,
  { examId, student }: { examId: string; student: string | null },
  attempts: number,
): Promise<void> {
  const detail = { attempts };
  if (student === null) return auditRead(mongo, act, { action: 'exam.attempts', subject: examId, detail });
  const subject = await tombstoneId(mongo, student);
  return auditRead(mongo, act, { action: 'account.attempts', subject, detail });
}

/**
 * Appends a read, unless this operator has read the same within the hour. Look-up and row are one transaction. Of two reads at the
 * same moment, one takes the next number of the chain; the other one is repeated and finds that row.
 */
async function auditRead(mongo: Mongo, { operator, now, ...act }: Reader, line: AccountLine | ReadLine): Promise<void> {
  const { action, subject } = line;
  const within = { subject, at: { $gt: new Date(now - ONE_ROW_MS) }, operator, action };
  await actAsOperator(mongo, { reason: 'none given', ...act, operator, now }, async (session) => {
    const options = { ...BOUND, hint: 'subject_in_pages', projection: { _id: 1 }, session } as const;
    const recent = await operatorAudit(mongo).findOne(within, options);
    return { result: undefined, line: recent === null ? line : null };
  });
}
