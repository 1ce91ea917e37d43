import { RoundOver } from '#infra/mongo/classifier/job-round.ts';
import { findJob } from '#infra/mongo/classifier/jobs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { isOpen, type JobBody } from '#shared/classifier/job.ts';

const LOOK_EVERY_MS = 500;

/** Aborts with RoundOver soon after the job was cancelled or started over, so that nobody is called for it any more. */
export interface RoundWatch {
  signal: AbortSignal;
  stop(): void;
}

export function watchRound(mongo: Mongo, at: JobBody, everyMs = LOOK_EVERY_MS): RoundWatch {
  const over = new AbortController();
  let timer = setTimeout(look, everyMs);
  let stopped = false;

  async function look(): Promise<void> {
    // What is not known now will be at the next look; what is written demands the round in any case.
    const job = await findJob(mongo, at.jobId).catch(() => undefined);
    if (stopped) return;
    if (job !== undefined && (job === null || job.round !== at.round || !isOpen(job.status))) {
      over.abort(new RoundOver(at));
      return;
    }
    timer = setTimeout(look, everyMs);
  }
  return {
    signal: over.signal,
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
