import type { Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { tombstoneId } from '#infra/mongo/erased-persons.ts';
import {
  type AccountLine,
  type AuditRow,
  actAsOperator,
  type OperatorAct,
  operatorAudit,
  type ReadLine,
} from '#infra/mongo/operator-audit.ts';
import type { AuditList } from '#shared/generated/operations.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { BOUND } from './reading.ts';
import type { Asked, Trace } from './trace.ts';

/** A filter of the audit: rows that equal each field that is set. */
export interface AuditFilter {
  operator?: string;
  action?: string;
  subject?: string;
}

/** A page of the audit, the newest row first. */
interface AuditPage {
  rows: AuditRow[];
  /** The place after the last row; null on the last page. */
  nextCursor: string | null;
}

/** Rows of a page: by default, and at most for a caller of the API. */
export const AUDIT_PAGE = 50;
const CURSOR = /^(\d{1,16})\.([\x21-\x7e]{1,64})$/;

/**
 * Reads a page of the audit. Each filter has an index that begins with its field; several filters use one of them, and MongoDB checks the rest of
 * the rows. A row that is added meanwhile is before the first page, so that a walk meets each older row once. Returns null for a cursor that
 * no page contained.
 */
export async function readAuditPage(
  mongo: Mongo,
  filter: AuditFilter,
  cursor: string | null,
  limit: number = AUDIT_PAGE,
): Promise<AuditPage | null> {
  const place = cursor === null ? null : CURSOR.exec(cursor);
  if (cursor !== null && place === null) return null;
  const [, at = '0', id = ''] = place ?? [];
  const before = { at: new Date(Number(at)), _id: id };
  const after =
    place === null ? {} : { $or: [{ at: { $lt: before.at } }, { at: before.at, _id: { $lt: before._id } }] };
  const bound = place === null ? {} : { at: { $lte: before.at } };
  const rows = await operatorAudit(mongo)
    .find({ ...(filter as Filter<AuditRow>), ...bound, ...after }, { maxTimeMS: QUERY_LIMIT_MS, hint: indexOf(filter) })
    .sort({ at: -1, _id: -1 })
    .limit(limit + 1)
    .toArray();
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const hasMore = rows.length > limit && last !== undefined;
  return { rows: page, nextCursor: hasMore ? `${last.at.getTime()}.${last._id}` : null };
}

/** Returns the index of the filter with the fewest rows: those of a subject, then of an operator, then of an action. */
function indexOf({ subject, operator, action }: AuditFilter): string {
  if (subject !== undefined) return 'subject_in_pages';
  if (operator !== undefined) return 'operator_in_pages';
  return action === undefined ? 'in_pages' : 'action_in_pages';
}

/** Returns a page as `GET /v1/ops/audit` returns it and `examhall audit --json` prints it. */
export function auditView({ rows, nextCursor }: AuditPage): AuditList {
  return {
    rows: rows.map((row) => ({
      id: row._id,
      seq: row.seq,
      hash: row.hash,
      at: row.at.toISOString(),
      operator: row.operator,
      action: row.action,
      subject: row.subject,
      reason: row.reason,
      queue: 'queue' in row ? row.queue : null,
      commandId: 'commandId' in row ? row.commandId : null,
      cause: 'lastError' in row ? (row.lastError?.fingerprint ?? null) : null,
      chargeSuperseded: 'chargeSuperseded' in row && row.chargeSuperseded === true,
      detail: 'detail' in row ? { ...row.detail } : null,
    })),
    nextCursor,
  };
}

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
