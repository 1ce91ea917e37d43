import type { Call, Reply } from '#api/route.ts';
import { findFreeSlots } from '#infra/mongo/classifier/in-flight.ts';
import { cancelJob, findOpenJob, findOwnJob, insertJob, retryJob } from '#infra/mongo/classifier/jobs.ts';
import { isErased } from '#infra/mongo/erased-persons.ts';
import { type CommandOf, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { CONTEXT_LIMIT_MS, loadQuestions, QuestionBankFailed } from '#infra/neighbours/question-bank.ts';
import { type JobRound, roundKey, roundOrder } from '#shared/classifier/commands.ts';
import { type JobRequest, type JobSlots, mayRetry, openKeyOf } from '#shared/classifier/job.ts';
import { type JobQuestions, jobRequestFaults, newJob } from '#shared/classifier/new-job.ts';
import type { CreateJobRequest } from '#shared/generated/classifier.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type Caller, callerOf, type JobDeps } from './deps.ts';
import { detailedJobView } from './job-queries.ts';

const DEFAULT_THRESHOLD = 0.7;
/**
 * Limit of read-and-write passes. If an equal job blocks the write and ends before the next read, or if another request takes a
 * slot, the request needs another pass. Past the limit it gets 503.
 */
const MAX_PASSES = 15;

/** `Retry-After` of a job that exceeds a limit (s). The end of the open jobs is unknown. */
const SLOT_RETRY_SECONDS = 30;

/**
 * Returns the open job equal to this request, or creates it with its questions. Of concurrent equal requests one creates the job
 * and all receive it. Rejects duplicate questions and fields, an erased caller, and a job beyond the limits of open jobs.
 */
export async function createJob(deps: JobDeps, call: Call<CreateJobRequest>): Promise<Reply | Rejection> {
  const details = jobRequestFaults(call.body);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const caller = callerOf(call.identity);
  const request = jobRequestOf(call.body, caller);
  const openKey = openKeyOf(request);
  let questions: JobQuestions | undefined;
  for (let pass = 1; pass <= MAX_PASSES; pass++) {
    // Read the slots first: if an equal job has just taken the last one, the next read finds that job.
    const [slots, erased] = await Promise.all([slotsFor(deps, caller), isErased(deps.mongo, caller.actorId)]);
    // The second pass of an erasure that begins after this read erases the job (`person/erase.ts`).
    if (erased) return { rejected: 'PERSON_ERASED' };
    const open = await findOpenJob(deps.mongo, openKey);
    if (open !== null) return reply(200, await detailedJobView(deps.mongo, open));
    if (isRejection(slots)) return slots;
    questions ??= await questionsFor(deps, request, caller);
    const now = deps.now();
    const origin = { id: newId(now), now: new Date(now), actorRole: caller.actorRole, slots };
    const made = newJob(request, origin, questions);
    const command = made.job.open ? jobCommand({ jobId: made.job._id, round: 1 }, deps, { ...caller, now }) : null;
    const inserted = await insertJob(deps.mongo, made, command);
    if (inserted.kind === 'raced') continue;
    if (command !== null) void deps.doorbells.ring(command, 0);
    return reply(201, await detailedJobView(deps.mongo, made.job));
  }
  return { rejected: 'UNAVAILABLE', retryAfter: 1 };
}

function jobRequestOf(body: CreateJobRequest, { actorId, organizationId }: Caller): JobRequest {
  const { questionIds, fields, mode = 'SUGGEST', overwrite = false, filters = {} } = body;
  const threshold = body.threshold ?? DEFAULT_THRESHOLD;
  return { actorId, organizationId, filters, questionIds, fields, mode, overwrite, threshold };
}

/** Returns free slots for one more open job of this caller, or the rejection if a limit is reached. */
async function slotsFor({ mongo, openJobLimits }: JobDeps, caller: Caller): Promise<JobSlots | Rejection> {
  const found = await findFreeSlots(mongo, caller, openJobLimits);
  if (found.kind === 'free') return found.slots;
  const message =
    found.whose === 'actor'
      ? `The caller has ${openJobLimits.perActor} open jobs; wait until one ends, or cancel one`
      : `The organization has ${openJobLimits.perOrganization} open jobs; retry when one has ended`;
  return { rejected: 'RATE_LIMITED', message, retryAfter: SLOT_RETRY_SECONDS };
}

/** Loads the wanted questions from the bank. If the bank fails, the result is FAILED; if no bank is configured, NONE. */
async function questionsFor(deps: JobDeps, request: JobRequest, { actorRole }: Caller): Promise<JobQuestions> {
  if (deps.questionBank === null) return { kind: 'NONE' };
  try {
    const known = await loadQuestions(deps.questionBank, { ...request, actorRole }, { timeoutMs: CONTEXT_LIMIT_MS });
    return { kind: 'LOADED', known };
  } catch (error) {
    if (!(error instanceof QuestionBankFailed)) throw error;
    deps.log.warn({ err: error }, 'loading the questions of a new job failed; job stored as FAILED');
    return { kind: 'FAILED' };
  }
}

/** Returns the command that runs one round of a job. */
function jobCommand(
  at: JobRound,
  { jobAttempts }: Pick<JobDeps, 'jobAttempts'>,
  { organizationId, now }: { organizationId: string; now: number },
): CommandOf<'classifier'> {
  return newCommand({ ...roundOrder(at, organizationId), maxAttempts: jobAttempts, now });
}

function reply(status: 200 | 201, { view }: { view: unknown }): Reply {
  return { status, data: { job: view, created: status === 201 } };
}

/**
 * Cancels a job of the caller. Results that are already stored remain; none are added. Rejects a finished job with
 * JOB_STATE_CONFLICT.
 */
export async function cancelOneJob(deps: JobDeps, call: Call): Promise<Reply | Rejection> {
  const jobId = call.params.jobId ?? '';
  const result = await cancelJob(deps.mongo, jobId, callerOf(call.identity));
  switch (result.kind) {
    case 'unknown':
      return { rejected: 'JOB_NOT_FOUND' };
    case 'finished':
      return { rejected: 'JOB_STATE_CONFLICT', message: `The job is ${result.job.status}` };
    case 'cancelled':
      deps.models.cancel(roundKey({ jobId, round: result.job.round }));
      deps.jobChanges.notify([jobId]);
      return { status: 200, data: { job: (await detailedJobView(deps.mongo, result.job)).view } };
  }
}

/**
 * Restarts a FAILED or CANCELLED job under its id: result, error, times and attempts are reset. Rejects a job in another state, or
 * one with an equal open job, with JOB_STATE_CONFLICT. The job counts as open again, so the limits of open jobs apply.
 */
export async function retryOneJob(deps: JobDeps, call: Call): Promise<Reply | Rejection> {
  const jobId = call.params.jobId ?? '';
  const caller = callerOf(call.identity);
  const now = deps.now();
  for (let pass = 1; pass <= MAX_PASSES; pass++) {
    // Read the slots first: if a concurrent retry of the job has just taken the last one, the next read finds the job open.
    const slots = await slotsFor(deps, caller);
    const job = await findOwnJob(deps.mongo, jobId, caller);
    if (job === null) return { rejected: 'JOB_NOT_FOUND' };
    const isBlocked = !mayRetry(job.status) || (await findOpenJob(deps.mongo, job.openKey)) !== null;
    if (isBlocked) return { rejected: 'JOB_STATE_CONFLICT' };
    if (isRejection(slots)) return slots;
    const retried = await retryJob(deps.mongo, jobId, caller, slots, (at) => jobCommand(at, deps, { ...caller, now }));
    switch (retried.kind) {
      case 'unknown':
        return { rejected: 'JOB_NOT_FOUND' };
      case 'conflict':
        return { rejected: 'JOB_STATE_CONFLICT' };
      case 'retried':
        void deps.doorbells.ring(retried.command, 0);
        deps.jobChanges.notify([jobId]);
        return { status: 200, data: { job: (await detailedJobView(deps.mongo, retried.job)).view } };
      case 'raced':
        break;
    }
  }
  return { rejected: 'UNAVAILABLE', retryAfter: 1 };
}
