import { isDeepStrictEqual } from 'node:util';
import type { Job } from '#shared/generated/classifier.ts';
import { openEventSource } from './event-source.ts';
import type { Caller, Gateway } from './gateway.ts';

/** What the stream of a classification job told. */
export interface FollowedJob {
  /** As it was told at its end; null where that was not told. */
  job: Job | null;
  /** How often it was told: the snapshot, and each change after it. */
  told: number;
  /** What should not be: a job that goes backwards, or never ends. */
  faults: string[];
}

/** A worker polls each second; a model takes its time over five questions, and asks once more where the answer was none. */
const FIRST_MS = 20_000;
const NEXT_MS = 180_000;

/** Looks on until the job is finished, or nothing new has been told for too long. `show` is given each state that is told. */
export async function followJob(
  gateway: Pick<Gateway, 'url' | 'identityOf'>,
  { owner, jobId }: { owner: Caller; jobId: string },
  show: (job: Job) => void,
): Promise<FollowedJob> {
  const over = Promise.withResolvers<void>();
  const followed: FollowedJob = { job: null, told: 0, faults: [] };
  let last: Job | null = null;
  let patience = setTimeout(giveUp, FIRST_MS);

  function giveUp(): void {
    const state = last?.status ?? `not told: ${source.trouble()}`;
    followed.faults.push(`job ${jobId} does not end, it is ${state}; is there a classifier worker?`);
    over.resolve();
  }

  const source = openEventSource(gateway, { owner, path: `/v1/ai-classifier/jobs/${jobId}/events` }, (event, data) => {
    if (event !== 'snapshot' && event !== 'job.updated') return;
    const { job } = data as { job: Job };
    followed.faults.push(...setbacks(last, job));
    last = job;
    followed.told += 1;
    show(job);
    clearTimeout(patience);
    if (isFinished(job)) {
      followed.job = job;
      over.resolve();
    } else patience = setTimeout(giveUp, job.status === 'PENDING' ? FIRST_MS : NEXT_MS);
  });
  await over.promise;
  clearTimeout(patience);
  await source.close();
  return followed;
}

function isFinished({ status }: Job): boolean {
  return status !== 'PENDING' && status !== 'RUNNING';
}

/** A job only goes on, and what is told twice under one revision is the same. */
function setbacks(before: Job | null, now: Job): string[] {
  if (before === null) return [];
  const faults: string[] = [];
  if (now.revision < before.revision) faults.push(`revision ${now.revision} was told after ${before.revision}`);
  if (now.revision === before.revision && !isDeepStrictEqual(now.progress, before.progress)) {
    faults.push(`revision ${now.revision} was told with two states`);
  }
  if (now.progress.processed < before.progress.processed) {
    faults.push(`${now.progress.processed} questions were told after ${before.progress.processed}`);
  }
  return faults;
}
