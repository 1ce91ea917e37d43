import { operator } from '#api/http/guards/tokens.ts';
import type { Call, Reply, Route, Tag } from '#api/route.ts';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { auditTrace } from '#infra/mongo/operations/audit.ts';
import { type Asked, readTrace, type Trace } from '#infra/mongo/operations/trace.ts';
import { logActs } from '#infra/mongo/operator-audit.ts';
import { withTimeout } from '#infra/process/background.ts';
import type { TraceQuery } from '#shared/generated/operations.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Secrets } from '#shared/kernel/secret.ts';
import type { Now } from '#shared/kernel/time.ts';
import { lineView, PAGE_LINES, pageOf, readCursor } from '#shared/operations/timeline.ts';

export interface TraceDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  log: Pick<Log, 'info'>;
  opsToken: Secrets | undefined;
  /** Rejects if Redis does not answer or stores no rings. */
  pingRedis: () => Promise<void>;
}

/** Longest wait for Redis; without its answer, operators read that it is unavailable. */
const REDIS_WAIT_MS = 500;

/** Group of the routes by which operators follow objects, persons and exams. */
export const FOLLOWING: Tag = {
  name: 'Operations: traces and exams',
  description: 'Operators follow an object, a person or an exam.',
};

/** Returns the routes of operators that read MongoDB. */
export function traceRoutes(deps: TraceDeps): Route[] {
  return [
    {
      method: 'GET',
      path: '/v1/ops/trace',
      operation: 'getTrace',
      summary: 'Get one timeline of an object or a person, with the reasons for what did not happen',
      description:
        'Returns what happened to an object or a person, in time order, and what did not happen, with reasons. Name exactly one of `id`, `student`, `exam` and `user`; `id` is any id of the system, an `X-Request-Id` too. Lines hold ids, states and times, never an answer, a score or a text. Each trace is a row of the audit, once an hour for an operator and a subject.',
      tag: FOLLOWING,
      guards: [operator(deps)],
      query: 'operations/trace-query',
      replies: [{ status: 200, schema: 'operations/trace', description: 'Summary and a page of lines' }],
      errors: ['TRACE_NOT_FOUND'],
      handle: (call: Call<never, TraceQuery>) => getTrace(deps, call),
    },
  ];
}

async function getTrace(
  deps: TraceDeps,
  { query, identity, requestId }: Call<never, TraceQuery>,
): Promise<Reply | Rejection> {
  const asked = askedFor(query);
  if (asked === null) return invalid('', 'exactly one of `id`, `student`, `exam` and `user` is required');
  const after = query.cursor === undefined ? null : readCursor(query.cursor);
  if (query.cursor !== undefined && after === null) return invalid('/cursor', 'must be a `nextCursor` of a reply');
  const trace = await traceFor(deps, asked, { operator: identity.operator ?? 'unknown', requestId });
  if (trace === null) return { rejected: 'TRACE_NOT_FOUND' };
  const { subject, verdicts, moreVerdicts, cut } = trace;
  const { lines, nextCursor } = pageOf(trace.lines, { after, limit: query.limit ?? PAGE_LINES });
  return { status: 200, data: { subject, verdicts, moreVerdicts, lines: lines.map(lineView), cut, nextCursor } };
}

/** Reads a trace for an operator, logs the read, and audits it. Null: nothing is stored. */
export async function traceFor(
  { mongo, now: clock, log, pingRedis }: Omit<TraceDeps, 'opsToken'>,
  asked: Asked,
  { operator: by, requestId }: { operator: string; requestId: string },
): Promise<Trace | null> {
  const now = clock();
  const redis = (await redisAnswers(pingRedis)) ? 'up' : 'down';
  const trace = await readTrace(mongo, asked, { now, redis });
  log.info({ requestId, operator: by, asked: asked.by, found: trace?.subject ?? null }, 'trace read');
  if (trace !== null) {
    const committed = logActs(log, { requestId });
    await auditTrace(mongo, { operator: by, now, committed }, asked, trace);
  }
  return trace;
}

/** Returns what the query names, or null if it names nothing or more than one thing. */
function askedFor(query: TraceQuery): Asked | null {
  const named = (['id', 'student', 'exam', 'user'] as const).flatMap((by) => {
    const value = query[by];
    return value == null ? [] : [{ by, value }];
  });
  const [asked = null, ...others] = named;
  return others.length > 0 ? null : asked;
}

/** Returns false if Redis does not answer in time, or stores no rings. */
export async function redisAnswers(ping: () => Promise<void>): Promise<boolean> {
  try {
    await withTimeout(ping(), REDIS_WAIT_MS, () => new Error('no answer in time'));
    return true;
  } catch {
    return false;
  }
}

function invalid(path: string, message: string): Rejection {
  return { rejected: 'VALIDATION_FAILED', details: [{ path, message }] };
}
