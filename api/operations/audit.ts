import { operator } from '#api/http/guards/tokens.ts';
import type { Call, Reply, Route, Tag } from '#api/route.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { AUDIT_PAGE, type AuditFilter, auditView, readAuditPage } from '#infra/mongo/operations/audit.ts';
import type { AuditQuery } from '#shared/generated/operations.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Secrets } from '#shared/kernel/secret.ts';

const AUDIT: Tag = { name: 'Operations: audit', description: 'Acts of operators, with their reasons.' };

interface AuditDeps {
  mongo: Mongo;
  opsToken: Secrets | undefined;
}

/** Returns the route by which operators read the audit, in the pages that `examhall audit --json` prints. */
export function auditRoutes({ mongo, opsToken }: AuditDeps): Route[] {
  return [
    {
      method: 'GET',
      path: '/v1/ops/audit',
      operation: 'listAudit',
      summary: 'List acts of operators, newest first, in pages',
      description:
        'Returns the acts of operators in pages, newest first, as `examhall audit --json` prints them. `nextCursor` of a reply is the `cursor` of the next one, with the same filter.',
      tag: AUDIT,
      guards: [operator({ opsToken })],
      query: 'operations/audit-query',
      replies: [{ status: 200, schema: 'operations/audit-list', description: 'A page of acts' }],
      errors: [],
      handle: (call: Call<never, AuditQuery>) => listAudit(mongo, call),
    },
  ];
}

async function listAudit(mongo: Mongo, { query }: Call<never, AuditQuery>): Promise<Reply | Rejection> {
  const page = await readAuditPage(mongo, filterOf(query), query.cursor ?? null, query.limit ?? AUDIT_PAGE);
  if (page !== null) return { status: 200, data: auditView(page) };
  const message = 'must be a `nextCursor` of a reply with the same filter';
  return { rejected: 'VALIDATION_FAILED', details: [{ path: '/cursor', message }] };
}

function filterOf({ operator: by, act: action, subject }: AuditQuery): AuditFilter {
  return {
    ...(by == null ? {} : { operator: by }),
    ...(action == null ? {} : { action }),
    ...(subject == null ? {} : { subject }),
  };
}
