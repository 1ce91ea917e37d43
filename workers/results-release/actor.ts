import {
  queueNotices,
  rememberRelease,
  setReleased,
  type UnreleasedAttempt,
  unreleasedAttempts,
} from '#infra/mongo/attempt/release.ts';
import { Stale } from '#infra/mongo/guarded-update.ts';
import type { ReleaseProgress } from '#shared/attempt/commands.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { isReleased, type Release, releaseEffect } from '#shared/attempt/release.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { ringForNotices } from '#workers/runtime.ts';

/** Attempts per transaction: small enough for one to end in a moment, large enough that a class is one. */
const CHUNK = 100;
/** Attempts per read: a server that sorts what it finds should not have to do so for each chunk. About 1 MiB. */
const READ_AHEAD = 1_000;
const START: ReleaseProgress = { afterId: '', updatedAttempts: 0, queuedNotifications: 0 };

/**
 * Sets the release time on every attempt of the exam and queues the notices of those whose result it makes visible,
 * in chunks of one transaction each. The release is remembered first: whatever is started or graded after that finds
 * it by itself, and whatever was before is found by this walk.
 */
export function resultsReleaseActor(deps: WorkerDeps): Actor {
  return {
    name: 'resultsrelease',
    backoff: { baseMs: deps.config.worker.retryBaseDelayMs, capMs: 60_000 },
    handlers: { resultsrelease: (run) => release(deps, run) },
  };
}

async function release(deps: WorkerDeps, run: Run<'resultsrelease'>): Promise<Outcome<'resultsrelease'>> {
  const { body, progress } = run.command;
  await rememberRelease(deps.mongo, body);
  const read = (from: ReleaseProgress, limit: number) =>
    unreleasedAttempts(deps.mongo, body.examId, from.afterId, limit);
  let at = progress ?? START;
  let ahead = await read(at, READ_AHEAD);
  while (ahead.length > 0) {
    run.signal.throwIfAborted();
    try {
      at = await releaseChunk(deps, run, at, ahead.slice(0, CHUNK));
      ahead = ahead.slice(CHUNK);
    } catch (error) {
      if (!(error instanceof Stale)) throw error;
      // One of the chunk was graded, saved to or handed in since it was read: read that chunk again and decide anew.
      ahead = await read(at, CHUNK);
    }
    if (ahead.length === 0) ahead = await read(at, READ_AHEAD);
  }
  const { updatedAttempts, queuedNotifications } = at;
  return { kind: 'done', result: { updatedAttempts, queuedNotifications } };
}

/** Releases these attempts, as they were read, and gives the progress after them. Throws Stale. */
async function releaseChunk(
  deps: WorkerDeps,
  run: Run<'resultsrelease'>,
  at: ReleaseProgress,
  chunk: readonly UnreleasedAttempt[],
): Promise<ReleaseProgress> {
  const { body } = run.command;
  const now = deps.now();
  const ours = chunk.filter((attempt) => isReleased(attempt, body));
  const notices = ours
    .filter((attempt) => releaseEffect(attempt, new Date(now)).notifies)
    .flatMap((attempt) => noticesOf(attempt, body));
  const next: ReleaseProgress = {
    afterId: chunk.at(-1)?._id ?? at.afterId,
    updatedAttempts: at.updatedAttempts + ours.length,
    queuedNotifications: at.queuedNotifications + notices.length,
  };
  await run.checkpoint(next, async (session) => {
    await setReleased(deps.mongo, ours, body.releasedAt, session);
    await queueNotices(deps.mongo, session, notices, { maxAttempts: deps.config.attempt.outbox.maxAttempts, now });
  });
  ringForNotices(deps, notices);
  return next;
}

function noticesOf(attempt: UnreleasedAttempt, body: Release) {
  return gradeNotices(
    { ...attempt, exam: { ...attempt.exam, resultsReleasedAt: body.releasedAt } },
    body.sourceEventId,
  );
}
