import {
  queueNotices,
  releasesUpTo,
  setReleased,
  type UnreleasedAttempt,
  unreleasedAttempts,
} from '#infra/mongo/attempt/release.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommandIn } from '#infra/mongo/mailbox/mailbox.ts';
import { isVoided } from '#shared/attempt/attempt.ts';
import { type ReleaseProgress, releasedOrder } from '#shared/attempt/commands.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { bindingRelease, releaseEffect, type StoredRelease } from '#shared/attempt/release.ts';
import { EVENT_ATTEMPTS } from '#shared/kernel/command.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { ringForNotices } from '#workers/runtime.ts';
import { inSteps } from '#workers/steps.ts';

/** Attempts per transaction: small enough for a short transaction, large enough for a whole class. */
const CHUNK = 100;
/** Attempts per read, about 1 MiB. One read serves ten chunks, because MongoDB may have to sort all matches for each read. */
const READ_AHEAD = 1_000;
const START: ReleaseProgress = { afterId: '', updatedAttempts: 0, queuedNotifications: 0 };

/**
 * Sets a release time on every attempt that the release binds, and queues notices for each result that becomes visible. Each chunk
 * is one transaction. The release was stored with its command, so an attempt inserted or graded during this walk finds the release
 * itself; this walk finds all earlier attempts. If an earlier release also binds an attempt and its walk has not come so far, this
 * walk sets the time of the earlier one. A voided attempt takes the time too, for its restore, and is neither counted nor announced.
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
  const read = (from: ReleaseProgress, limit: number) =>
    unreleasedAttempts(deps.mongo, body.examId, { afterId: from.afterId, limit, session: run.session });
  const releases = await releasesUpTo(deps.mongo, body, run.session);
  let at = progress ?? START;
  let ahead: readonly UnreleasedAttempt[] = [];
  await inSteps(run.signal, CHUNK, async (limit) => {
    const found = ahead.length > 0 ? ahead : await read(at, limit < CHUNK ? limit : READ_AHEAD);
    // A chunk that is stale leaves none ahead, so that all are read again.
    ahead = [];
    if (found.length === 0) return false;
    at = await releaseChunk(deps, run, { at, releases, chunk: found.slice(0, limit) });
    ahead = found.slice(limit);
    return true;
  });
  const { updatedAttempts, queuedNotifications } = at;
  const result = { updatedAttempts, queuedNotifications };
  if (!(await deps.wanted.wants('results.released'))) return { kind: 'done', result };
  const now = deps.now();
  // The event of a release ahead waits, as its results do.
  const runAt = Math.max(now, body.releasedAt.getTime());
  // The row, because the command lacks the students.
  const row = releases.find(({ number }) => number === body.number) ?? body;
  const event = newCommand({ ...releasedOrder(row), maxAttempts: EVENT_ATTEMPTS, now, runAt });
  return { kind: 'done', result, effects: (session) => postCommandIn(deps.mongo, session, event) };
}

interface Chunk {
  at: ReleaseProgress;
  chunk: readonly UnreleasedAttempt[];
  /** Releases that may bind the attempts, ascending by number. */
  releases: readonly StoredRelease[];
}

/** Releases these attempts and returns the progress after them. Throws Stale if one has changed since it was read. */
async function releaseChunk(
  deps: WorkerDeps,
  run: Run<'resultsrelease'>,
  { at, chunk, releases }: Chunk,
): Promise<ReleaseProgress> {
  const now = deps.now();
  const bound = Map.groupBy(chunk, (attempt) => bindingRelease(attempt, releases));
  const ours = [...bound].flatMap(([release, attempts]) => (release === undefined ? [] : [{ release, attempts }]));
  const notices = ours.flatMap(({ release, attempts }) =>
    attempts
      .filter((attempt) => releaseEffect(attempt, new Date(now)).notifies)
      .flatMap((attempt) => noticesOf(attempt, release)),
  );
  const next: ReleaseProgress = {
    afterId: chunk.at(-1)?._id ?? at.afterId,
    updatedAttempts:
      at.updatedAttempts + ours.reduce((sum, { attempts }) => sum + attempts.filter((one) => !isVoided(one)).length, 0),
    queuedNotifications: at.queuedNotifications + notices.length,
  };
  await run.checkpoint(next, async (session) => {
    for (const { release, attempts } of ours) await setReleased(deps.mongo, attempts, release, session);
    await queueNotices(deps.mongo, session, notices, { maxAttempts: deps.config.attempt.outbox.maxAttempts, now });
  });
  ringForNotices(deps, notices, new Date(now));
  return next;
}

function noticesOf(attempt: UnreleasedAttempt, { releasedAt, sourceEventId }: StoredRelease) {
  return gradeNotices(attempt, { releaseEventId: sourceEventId, notBefore: releasedAt });
}
