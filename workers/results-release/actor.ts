import { gradeNotices } from '../../shared/attempt/notices.ts';
import { isReleased, type Release, releaseEffect } from '../../shared/attempt/release.ts';
import { queueNotices } from '../../shared/infra/mongo/attempt/queue-notices.ts';
import {
  setReleased,
  type UnreleasedAttempt,
  unreleasedAttempts,
} from '../../shared/infra/mongo/attempt/release-attempts.ts';
import { rememberRelease } from '../../shared/infra/mongo/attempt/releases.ts';
import { Stale } from '../../shared/infra/mongo/stale.ts';
import type { Actor, Run } from '../actor.ts';
import type { WorkerDeps } from '../deps.ts';
import type { Outcome } from '../outcome.ts';

/** How far a release has come; kept on its command from chunk to chunk. */
interface ReleaseProgress {
  afterId: string;
  updatedAttempts: number;
  queuedNotifications: number;
}

/** Attempts per transaction: small enough for one to end in a moment, large enough that a class is one. */
const CHUNK = 100;
const START: ReleaseProgress = { afterId: '', updatedAttempts: 0, queuedNotifications: 0 };

/**
 * Sets the release time on every attempt of the exam and queues the notices of those whose result it makes visible,
 * in chunks of one transaction each. The release is remembered first: whatever is started or graded after that finds
 * it by itself, and whatever was before is found by this walk.
 */
export function resultsReleaseActor(deps: WorkerDeps): Actor<Release, ReleaseProgress> {
  return {
    name: 'resultsrelease',
    queues: ['resultsrelease'],
    backoff: { baseMs: deps.config.worker.retryBaseDelayMs, capMs: 60_000 },
    run: (run) => release(deps, run),
  };
}

async function release(deps: WorkerDeps, run: Run<Release, ReleaseProgress>): Promise<Outcome> {
  const { body, progress } = run.command;
  await rememberRelease(deps.mongo, body);
  let at = progress ?? START;
  for (;;) {
    run.signal.throwIfAborted();
    const next = await releaseChunk(deps, run, body, at);
    if (next === null) break;
    at = next;
  }
  const { updatedAttempts, queuedNotifications } = at;
  return { kind: 'done', result: { updatedAttempts, queuedNotifications } };
}

/** The progress after the next chunk; null when there is none. */
async function releaseChunk(
  deps: WorkerDeps,
  run: Run<Release, ReleaseProgress>,
  body: Release,
  at: ReleaseProgress,
): Promise<ReleaseProgress | null> {
  for (;;) {
    const found = await unreleasedAttempts(deps.mongo, body.examId, at.afterId, CHUNK);
    const last = found.at(-1);
    if (last === undefined) return null;
    const now = deps.now();
    const ours = found.filter((attempt) => isReleased(attempt, body));
    const notices = ours
      .filter((attempt) => releaseEffect(attempt, new Date(now)).notifies)
      .flatMap((attempt) => noticesOf(attempt, body));
    const next: ReleaseProgress = {
      afterId: last._id,
      updatedAttempts: at.updatedAttempts + ours.length,
      queuedNotifications: at.queuedNotifications + notices.length,
    };
    try {
      await run.checkpoint(next, async (session) => {
        await setReleased(deps.mongo, ours, body.releasedAt, session);
        const maxAttempts = deps.config.attempt.outbox.maxAttempts;
        await queueNotices(deps.mongo, session, notices, { maxAttempts, now });
      });
      return next;
    } catch (error) {
      // One of the chunk was graded, saved to or handed in meanwhile: read the chunk again and decide anew.
      if (!(error instanceof Stale)) throw error;
    }
  }
}

function noticesOf(attempt: UnreleasedAttempt, body: Release) {
  return gradeNotices(
    { ...attempt, exam: { ...attempt.exam, resultsReleasedAt: body.releasedAt } },
    body.sourceEventId,
  );
}
