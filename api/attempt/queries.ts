import { listReply } from '#api/http/streamed.ts';
import type { Call, RawReply, Reply, TextReply } from '#api/route.ts';
import { findAttempt, findAttemptById, listAttempts } from '#infra/mongo/attempt/attempts.ts';
import { type AttemptCount, countAttempts } from '#infra/mongo/attempt/counts.ts';
import { allEvents } from '#infra/mongo/attempt/events.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { DETAIL_EVENTS, MAX_LISTED_ATTEMPTS } from '#shared/attempt/limits.ts';
import { redactEvents, resultOf, studentListItem } from '#shared/attempt/redact.ts';
import { mayRead } from '#shared/attempt/visibility.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { jsonText } from '#shared/kernel/json.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { type AttemptDeps, detailOf, detailReply, refusalOf, viewerOf } from './deps.ts';

/** Returns the caller's own attempts, newest start first. */
export async function listOwnAttempts(deps: AttemptDeps, call: Call): Promise<Reply> {
  const found = await listAttempts(deps.mongo, viewerOf(call.identity).id, MAX_LISTED_ATTEMPTS);
  const now = new Date(deps.now());
  return { status: 200, data: found.map((attempt) => studentListItem(attempt, now)) };
}

/** Returns one attempt with its newest events, as this viewer may see it. Rejects a caller without access. */
export async function readAttempt(deps: AttemptDeps, call: Call): Promise<Reply | TextReply | Rejection> {
  const attempt = await readable(deps, call);
  if (isRejection(attempt)) return attempt;
  return detailReply(deps, attempt, viewerOf(call.identity), { status: 200, eventLimit: DETAIL_EVENTS });
}

/** Returns the result of an attempt, as this viewer may see it. Rejects a caller without access. */
export async function readResult(deps: AttemptDeps, call: Call): Promise<Reply | Rejection> {
  const attempt = await readable(deps, call);
  if (isRejection(attempt)) return attempt;
  const detail = await detailOf(deps, attempt, viewerOf(call.identity), DETAIL_EVENTS);
  return { status: 200, data: resultOf(detail) };
}

/**
 * Streams the whole event log in ascending order from the cursor: ten thousand events of 8 KiB must not be in memory
 * for each reader.
 */
export async function readEvents(deps: AttemptDeps, call: Call): Promise<RawReply | Rejection> {
  const attempt = await readable(deps, call);
  if (isRejection(attempt)) return attempt;
  const viewer = viewerOf(call.identity);
  const now = new Date(deps.now());

  return listReply(call.signal, async function* () {
    for await (const event of allEvents(deps.mongo, attempt)) {
      const [shown] = redactEvents(attempt, [event], viewer, now);
      yield atOnce(jsonText(shown)) ?? 'null';
    }
  });
}

/** Returns the attempt if it exists and this caller may read it; otherwise the rejection. */
async function readable(deps: AttemptDeps, call: Call): Promise<Attempt | Rejection> {
  const viewer = viewerOf(call.identity);
  const _id = call.params.attemptId ?? '';
  if (viewer.role === 'STUDENT') {
    return (await findAttempt(deps.mongo, { _id, studentId: viewer.id })) ?? refusalOf(deps, _id, viewer);
  }
  const attempt = await findAttemptById(deps.mongo, _id);
  if (attempt === null) return { rejected: 'ATTEMPT_NOT_FOUND' };
  return mayRead(attempt, viewer) ? attempt : { rejected: 'FORBIDDEN' };
}

/** Returns counts for admin dashboards, computed from this service's own data only. */
export async function summarizeAttempts(deps: AttemptDeps): Promise<Reply> {
  const counts = await countAttempts(deps.mongo);
  const sum = (field: Exclude<keyof AttemptCount, 'status' | 'submittedBy'>, only: Partial<AttemptCount> = {}) =>
    counts
      .filter((count) => Object.entries(only).every(([name, value]) => count[name as keyof AttemptCount] === value))
      .reduce((total, count) => total + count[field], 0);
  const data = {
    attempts: {
      total: sum('attempts'),
      byStatus: {
        IN_PROGRESS: sum('attempts', { status: 'IN_PROGRESS' }),
        SUBMITTED: sum('attempts', { status: 'SUBMITTED' }),
        GRADED: sum('attempts', { status: 'GRADED' }),
      },
      bySubmitSource: {
        STUDENT: sum('attempts', { submittedBy: 'STUDENT' }),
        TIMEOUT: sum('attempts', { submittedBy: 'TIMEOUT' }),
        TEACHER: sum('attempts', { submittedBy: 'TEACHER' }),
        NONE: sum('attempts', { submittedBy: null }),
      },
      withScores: sum('scored'),
      withAccessLink: sum('linked'),
      withIdempotencyKey: sum('keyed'),
      withResultsReleased: sum('released'),
    },
    rows: {
      questions: sum('questions'),
      answers: sum('answers'),
      gradedAnswers: sum('graded'),
      events: sum('events'),
    },
  };
  return { status: 200, data };
}
