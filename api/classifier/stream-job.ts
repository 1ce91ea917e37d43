import type { EventStream } from '#api/http/event-stream.ts';
import { type Beginning, type LiveStream, liveStream, type WakeSignal } from '#api/http/live-stream.ts';
import type { Call, RawReply } from '#api/route.ts';
import type { JobRow } from '#infra/mongo/classifier/collections.ts';
import { findJob, findOwnJob } from '#infra/mongo/classifier/jobs.ts';
import { isOpen } from '#shared/classifier/job.ts';
import { startOf } from '#shared/classifier/job-view.ts';
import { ERRORS, type ErrorCode, type Rejection } from '#shared/kernel/errors.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { callerOf, type JobDeps } from './deps.ts';
import { detailedJobView, listJobView } from './job-queries.ts';

/**
 * Poll intervals of a stream. DISCONNECTED_POLL_MS applies while wakes of other processes cannot arrive. Otherwise POLL_MS applies and
 * finds changes whose wake was lost.
 */
const DISCONNECTED_POLL_MS = 1 * SECOND;
const POLL_MS = 3 * SECOND;
/** Minimum pause between two polls of one stream, so that a burst of batches is sent as one update. */
const PAUSE_MS = 200;
/** Limit of unread bytes: a finished job of 2,000 questions is one event of about 1 MiB. */
const MAX_UNREAD_BYTES = 8 * 1024 * 1024;

/**
 * Streams a job of the caller until it is finished, or returns JOB_NOT_FOUND. Each event holds the whole state, so a client loses
 * nothing by missing earlier events.
 */
export async function streamJob(deps: JobDeps, call: Call): Promise<RawReply | Rejection> {
  const { mongo, jobChanges, streams } = deps;
  const caller = callerOf(call.identity);
  const jobId = call.params.jobId ?? '';
  const first = await findOwnJob(mongo, jobId, caller);
  if (first === null) return { rejected: 'JOB_NOT_FOUND' };
  return liveStream({
    streams,
    now: deps.now,
    maxUnreadBytes: MAX_UNREAD_BYTES,
    holder: caller.actorId,
    call,
    listen: (changed) => jobChanges.listen(jobId, changed),
    async begin() {
      const job = (await findJob(mongo, jobId)) ?? first;
      const start = startOf(call.headers['last-event-id'], { revision: job.revision, isOpen: isOpen(job.status) });
      const from = (known: number): Beginning => ({
        kind: 'follow',
        follow: (stream, wakeSignal) => follow(deps, { jobId, stream, wakeSignal }, known),
      });
      switch (start.kind) {
        case 'over':
          return { kind: 'over' };
        case 'snapshot': {
          const whole = await detailedJobView(mongo, job);
          return {
            kind: 'follow',
            follow(stream, wakeSignal) {
              stream.send({ event: 'snapshot', data: { job: whole.view }, id: `${whole.revision}` });
              return follow(deps, { jobId, stream, wakeSignal }, whole.revision);
            },
          };
        }
        case 'update':
          // The first poll sends the changes that the reconnecting client missed.
          return from(0);
        case 'nothing':
          return from(job.revision);
      }
    },
  });
}

interface Following {
  jobId: string;
  stream: LiveStream;
  wakeSignal: WakeSignal;
}

/** Sends each change until the job is finished, the client disconnects or the stream reaches its maximum age. */
async function follow(deps: JobDeps, { jobId, stream, wakeSignal }: Following, start: number): Promise<void> {
  let known = start;
  let isTroubled = false;
  while (stream.isLive()) {
    try {
      const job = await findJob(deps.mongo, jobId);
      if (job === null) return sendError(stream, 'JOB_NOT_FOUND');
      if (job.revision > known) known = await sendUpdate(deps, stream, job);
      if (!isOpen(job.status)) return;
      isTroubled = false;
    } catch (err) {
      deps.log.debug({ err }, 'reading a streamed job failed; retrying');
      if (!isTroubled) sendError(stream, 'UNAVAILABLE');
      isTroubled = true;
    }
    await wakeSignal.pause(PAUSE_MS);
    if (!stream.isLive()) return;
    await wakeSignal.wait(deps.jobChanges.isConnected() ? POLL_MS : DISCONNECTED_POLL_MS);
  }
}

/**
 * Sends the job and returns the sent revision. Results are included only once the job is finished, because an open job changes with
 * each batch.
 */
async function sendUpdate({ mongo }: JobDeps, stream: EventStream, job: JobRow): Promise<number> {
  const sent = isOpen(job.status)
    ? { revision: job.revision, view: await listJobView(mongo, job) }
    : await detailedJobView(mongo, job);
  stream.send({ event: 'job.updated', data: { job: sent.view }, id: `${sent.revision}` });
  return sent.revision;
}

function sendError(stream: EventStream, code: ErrorCode): void {
  stream.send({ event: 'error', data: { code, message: ERRORS[code].message } });
}
