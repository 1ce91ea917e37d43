import type { Filter } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { type AuditRow, operatorAudit } from '#infra/mongo/operator-audit.ts';
import type { AuditList } from '#shared/generated/operations.ts';

/** A filter of the audit: rows that equal each field that is set. */
export interface AuditFilter {
  operator?: string;
  action?: string;
  subject?: string;
}

/** A page of the audit, the newest row first. */
export interface AuditPage {
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
