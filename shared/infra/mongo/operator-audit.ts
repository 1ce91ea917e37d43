import type { ClientSession, Collection } from 'mongodb';
import type { Log } from '#infra/log/log.ts';
import type { Command } from '#shared/kernel/command.ts';
import { CHAINED, faultOf, faultOfNoted, type Link, linked, linkId, type StoredRow } from './audit-chain.ts';
import { type Mongo, QUERY_LIMIT_MS } from './connect.ts';
import { isDuplicateKey } from './faults.ts';
import { inTransaction, repeatable } from './transaction.ts';

/** Append-only collection of the actions of operators and their reasons. Each row names the hash of the row before it. */
export const OPERATOR_AUDIT = 'operator_audit';

/** Fewest characters of the reason of a change, without blanks around it. */
export const MIN_REASON = 5;

/** The operator, the reason and the time of an action; `now` is MongoDB's time in Unix milliseconds. */
export interface OperatorAct {
  operator: string;
  reason: string;
  now: number;
  /** Is called with the row after its commit, to log it outside the database. */
  committed?: (row: AuditRow) => void;
}

/** The acts on accounts and persons, the reads of their data included. */
const ACCOUNT_ACTIONS = [
  'account.attempts',
  'account.end-sessions',
  'account.import',
  'account.make-admin',
  'account.person-erase',
  'account.person-export',
  'account.person-show',
  'account.set-password',
  'account.show',
  'account.status',
  'account.trace',
  'account.unlock',
] as const;
const LETTER_ACTIONS = ['dead.ack', 'dead.drop', 'dead.replay'] as const;
const BULK_ACTIONS = ['dead.bulk-begin', 'dead.bulk-end', 'dead.bulk-stop'] as const;
const SUBSCRIPTION_ACTIONS = ['subscription.change', 'subscription.create', 'subscription.delete'] as const;
const READ_ACTIONS = ['exam.attempts', 'exam.results-downloaded', 'object.trace'] as const;
/** Acts of examiners. */
export const EXAM_ACTIONS = [
  'attempt.reopen',
  'attempt.restore',
  'attempt.submit',
  'attempt.void',
  'exam.extra-time',
  'exam.submit-all',
  'exam.regrade',
  'exam.regrade-applied',
  'exam.regrade-discarded',
] as const;
/** Every act that the audit names. */
export const AUDIT_ACTIONS = [
  ...ACCOUNT_ACTIONS,
  ...BULK_ACTIONS,
  ...EXAM_ACTIONS,
  ...LETTER_ACTIONS,
  ...READ_ACTIONS,
  ...SUBSCRIPTION_ACTIONS,
] as const;

export interface AccountLine {
  action: (typeof ACCOUNT_ACTIONS)[number];
  /**
   * Account id; throttle id if there is no account; file name for an import. Never an e-mail address, because audit rows are
   * stored for ever.
   */
  subject: string;
  detail: Readonly<Record<string, string | number | null>>;
}

/** The read of an object with the data of persons. `subject` is the id of an exam or attempt, and the digest of any other id. */
export interface ReadLine {
  action: (typeof READ_ACTIONS)[number];
  subject: string;
  detail: Readonly<Record<string, string | number>>;
}

/** An act of an examiner. `operator` is the examiner, and `subject` is the id of the exam or attempt. */
export interface ExamActLine {
  action: (typeof EXAM_ACTIONS)[number];
  subject: string;
  detail: Readonly<Record<string, string | number | null>>;
}

/** A change of a subscription to events, with what it is afterwards. */
export interface SubscriptionLine {
  action: (typeof SUBSCRIPTION_ACTIONS)[number];
  subject: string;
  detail: Readonly<Record<string, string | number | null>>;
}

/** An act on a dead command, with the error of which it died. `subject` is a digest if the command may concern a person. */
export interface DeadLetterLine extends Pick<Command, 'queue' | 'subject' | 'lastError'> {
  action: (typeof LETTER_ACTIONS)[number];
  commandId: string;
  /** The operator has consented to charge an answer that no request returns any longer. */
  chargeSuperseded?: true;
}

/** A request for an act on many dead letters, its stop, or its end. Each letter has a line of its own. `subject` is a digest if one is named. */
export interface BulkLine extends Pick<Command, 'queue' | 'subject'> {
  action: (typeof BULK_ACTIONS)[number];
  commandId: string;
  detail: Readonly<Record<string, string | number | null>>;
}

/** Returns a function that logs a row of the audit outside the database: the `committed` of an act. */
export function logActs(log: Pick<Log, 'info'>, fields: { requestId?: string } = {}): (row: AuditRow) => void {
  return (row) => log.info({ ...row, ...fields }, 'operator act');
}

type AuditLine = AccountLine | DeadLetterLine | BulkLine | ExamActLine | ReadLine | SubscriptionLine;
export type AuditRow = AuditLine & { _id: string; operator: string; reason: string; at: Date } & Link;

/** Returns the names and values of what an act did, as console and command line show them. */
export function auditFacts(row: AuditLine): [name: string, value: string | number][] {
  if ('detail' in row) return Object.entries(row.detail).map(([name, value]) => [name, value ?? '–']);
  return row.chargeSuperseded === true ? [['chargeSuperseded', 'true']] : [];
}

/** Returns the collection of the audit. */
export function operatorAudit(mongo: Mongo): Collection<AuditRow> {
  return mongo.db.collection<AuditRow>(OPERATOR_AUDIT);
}

const BUDGET_MS = 10_000;

/**
 * Runs an operator's change and appends its line to the audit, in one transaction. `work` returns its result and the line. A null
 * line means that nothing was changed; then no line is written.
 */
export async function actAsOperator<Result>(
  mongo: Mongo,
  act: OperatorAct,
  work: (session: ClientSession) => Promise<{ result: Result; line: AuditLine | null }>,
): Promise<Result> {
  const { result, row } = await inTransaction(mongo, BUDGET_MS, async (session) => {
    const { result, line } = await work(session);
    return { result, row: line === null ? null : await appendAudit(mongo, act, line, session) };
  });
  if (row !== null) act.committed?.(row);
  return result;
}

/** Appends one line to the audit by itself: the record of a read, or of one step of a long action. */
export async function writeAudit(mongo: Mongo, act: OperatorAct, line: AuditLine): Promise<void> {
  await actAsOperator(mongo, act, async () => ({ result: undefined, line }));
}

/**
 * Appends one line to the chain, in the caller's transaction. Two transactions that append at the same time take the same number. The
 * unique `_id` lets one of them commit; the other one is repeated and takes the next number.
 */
export async function appendAudit(
  mongo: Mongo,
  { operator, reason, now }: OperatorAct,
  line: AuditLine,
  session: ClientSession,
): Promise<AuditRow> {
  const head = await newestLink(mongo, session);
  const row: AuditRow = linked({ ...line, operator, reason, at: new Date(now) }, head);
  try {
    await operatorAudit(mongo).insertOne(row, { session });
  } catch (error) {
    throw isDuplicateKey(error) ? repeatable(error) : error;
  }
  return row;
}

async function newestLink(mongo: Mongo, session: ClientSession): Promise<Link | null> {
  const chained = { _id: { $gte: CHAINED.from, $lt: CHAINED.to } };
  const newest = await operatorAudit(mongo).findOne<Link>(chained, { sort: { _id: -1 }, session });
  return newest;
}

/** A place of the chain that an operator has noted. */
export type Noted = Pick<Link, 'seq' | 'hash'>;

export interface AuditVerdict {
  /** The first fault, or null. */
  fault: string | null;
  /** Number of the rows that were read and are in order. */
  intact: number;
  /** The last row in order, or null. */
  head: Noted | null;
}

/**
 * Walks the chain from row 1, or from a noted row, which must still have its hash. Stops at the first fault: a row that is missing,
 * altered, reordered or replaced. A row without a number in the chain is a fault too.
 *
 * The chain alone cannot show that its newest rows were deleted, or that all of it was written anew: note the head elsewhere.
 */
export async function verifyAudit(mongo: Mongo, noted: Noted | null): Promise<AuditVerdict> {
  const collection = mongo.db.collection<StoredRow>(OPERATOR_AUDIT);
  const from = noted === null ? CHAINED.from : linkId(noted.seq);
  const rows = collection.find({ _id: { $gte: from, $lt: CHAINED.to } }).sort({ _id: 1 });
  let head: Noted | null = null;
  let fault: string | null = null;
  let intact = 0;
  for await (const row of rows) {
    const isNoted = noted !== null && intact === 0;
    fault = isNoted ? faultOfNoted(row._id === from ? row : null, noted) : faultOf(row, head);
    if (fault !== null) break;
    intact += 1;
    head = { seq: Number(row.seq), hash: String(row.hash) };
  }
  if (noted !== null && intact === 0) fault ??= faultOfNoted(null, noted);
  if (fault === null) {
    const stray = await collection.findOne({ $or: [{ _id: { $lt: CHAINED.from } }, { _id: { $gte: CHAINED.to } }] });
    if (stray !== null) fault = `row ${stray._id} has no place in the chain`;
  }
  return { fault, intact, head };
}

/** Walks the newest rows of the chain, at most `limit`. Returns the first fault and the number of rows in order before it. */
export async function newestAuditFault(mongo: Mongo, limit: number): Promise<Pick<AuditVerdict, 'fault' | 'intact'>> {
  const chain = mongo.db.collection<StoredRow>(OPERATOR_AUDIT);
  const chained = { _id: { $gte: CHAINED.from, $lt: CHAINED.to } };
  const rows = await chain.find(chained, { maxTimeMS: QUERY_LIMIT_MS, sort: { _id: -1 }, limit }).toArray();
  const [first, ...others] = rows.reverse();
  if (first === undefined) return { fault: null, intact: 0 };
  // The hash of the row before the walk is unknown, unless the walk has the whole chain. The first row then proves itself only.
  const noted = { seq: Number(first.seq), hash: String(first.hash) };
  const isWhole = rows.length < limit;
  let fault = isWhole ? faultOf(first, null) : faultOfNoted(first, noted);
  let head: Noted = noted;
  let intact = 0;
  for (const row of others) {
    if (fault !== null) break;
    intact += 1;
    fault = faultOf(row, head);
    head = { seq: Number(row.seq), hash: String(row.hash) };
  }
  return { fault, intact: fault === null ? intact + 1 : intact };
}
