import { aiJobBatches, aiJobs, generationHolds, generations } from '#infra/mongo/classifier/collections.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import type { Generation } from '#shared/classifier/generation.ts';
import type { ClassificationJob, JobBatch } from '#shared/classifier/job.ts';
import { reason, refusalReason, type Why } from '#shared/operations/reasons.ts';
import { traceLine } from '#shared/operations/timeline.ts';
import { addCommand, BOUND, CAP, capped, commandsOf, type Reading } from './reading.ts';

const JOB = { status: 1, round: 1, actorId: 1, organizationId: 1, counts: 1, error: 1, createdAt: 1, finishedAt: 1 };
type TracedJob = Pick<
  ClassificationJob,
  '_id' | 'status' | 'round' | 'actorId' | 'counts' | 'error' | 'createdAt' | 'finishedAt'
>;

const GENERATION = {
  state: 1,
  key: 1,
  epoch: 1,
  organizationId: 1,
  actor: 1,
  leaseUntil: 1,
  fence: 1,
  failure: 1,
  usageConsumed: 1,
  closed: 1,
  createdAt: 1,
  settledAt: 1,
  replayUntil: 1,
  idleSince: 1,
};
type TracedGeneration = Pick<
  Generation,
  '_id' | 'state' | 'organizationId' | 'actor' | 'leaseUntil' | 'failure' | 'usageConsumed' | 'closed' | 'createdAt'
> & { settledAt: Date | null };

/** Jobs and generations that the trace of a user reads. */
const NEWEST = 50;

/** Adds a job with its batches and commands. Returns false if it does not exist. */
export async function addJob(reading: Reading, id: string): Promise<boolean> {
  const job = await aiJobs(reading.mongo).findOne<TracedJob>({ _id: id }, { ...BOUND, projection: JOB });
  if (job === null) return false;
  addJobLine(reading, job);
  const batches = await aiJobBatches(reading.mongo)
    .find<Pick<JobBatch, '_id' | 'index'> & { outcome: { round: number } | null }>(
      { jobId: id },
      { ...BOUND, projection: { index: 1, 'outcome.round': 1 }, sort: { index: 1 }, limit: CAP + 1 },
    )
    .toArray();
  for (const { _id, outcome } of capped(reading, 'batch', batches)) {
    const state = outcome?.round === job.round ? 'DONE' : 'OPEN';
    reading.lines.push(traceLine({ at: job.createdAt, kind: 'batch', id: _id, state, about: id }));
  }
  for (const command of await commandsOf(reading, [id], [COMMANDS])) addCommand(reading, command);
  return true;
}

/** Adds a generation, its hold and its settlement. Returns false if it does not exist. */
export async function addGeneration(reading: Reading, id: string): Promise<boolean> {
  const row = await generations(reading.mongo).findOne<TracedGeneration>(
    { _id: id },
    { ...BOUND, projection: GENERATION },
  );
  if (row === null) return false;
  addGenerationLine(reading, row);
  const holds = await generationHolds(reading.mongo).findOne({ _id: row.organizationId }, BOUND);
  const own = holds?.holds.find(({ previewId }) => previewId === id);
  if (own !== undefined) {
    const state = own.usageConsumed === true ? 'USAGE_CONSUMED' : 'HELD';
    reading.lines.push(
      traceLine({
        at: row.createdAt,
        kind: 'hold',
        id: `${id}:hold`,
        state,
        about: row.organizationId,
        nextAt: own.until,
      }),
    );
  }
  for (const command of await commandsOf(reading, [id], [COMMANDS])) addCommand(reading, command);
  return true;
}

/** Adds the newest jobs and generations of a user. Returns their number. */
export async function addModelWork(reading: Reading, actorId: string): Promise<number> {
  const newest = { ...BOUND, sort: { _id: -1 as const }, limit: NEWEST + 1 };
  const [jobs, rows] = await Promise.all([
    aiJobs(reading.mongo)
      .find<TracedJob>({ actorId }, { ...newest, projection: JOB, hint: 'of_actor' })
      .toArray(),
    generations(reading.mongo)
      .find<TracedGeneration>({ 'actor.id': actorId }, { ...newest, projection: GENERATION, hint: 'of_actor' })
      .toArray(),
  ]);
  const [shownJobs, shownRows] = [capped(reading, 'job', jobs, NEWEST), capped(reading, 'generation', rows, NEWEST)];
  for (const job of shownJobs) addJobLine(reading, job);
  for (const row of shownRows) addGenerationLine(reading, row);
  const subjects = [...shownJobs, ...shownRows].map(({ _id }) => _id);
  for (const command of await commandsOf(reading, subjects, [COMMANDS])) addCommand(reading, command);
  return jobs.length + rows.length;
}

function addJobLine({ lines }: Reading, job: TracedJob): void {
  const { _id: id, status: state, createdAt: at, finishedAt: endedAt, actorId: about, counts, error } = job;
  const what = `${counts.batchesDone} of ${counts.batchesTotal} batches`;
  const why: Why =
    state === 'FAILED'
      ? {
          effect: 'job failed',
          reason: reason('FAILED', error?.code ?? 'no question succeeded', 'let its owner retry it'),
        }
      : state === 'CANCELLED'
        ? { effect: 'job not finished', reason: reason('CANCELLED', 'its owner has cancelled it') }
        : {};
  lines.push(traceLine({ at, kind: 'job', id, state, what, about, endedAt, ...why }));
}

function addGenerationLine({ lines, cluster }: Reading, row: TracedGeneration): void {
  const { _id: id, state, closed, createdAt: at, actor, settledAt: endedAt, failure, leaseUntil } = row;
  const isHeld = leaseUntil.getTime() > cluster.now;
  const effect = state === 'MAKING' ? 'no questions generated' : 'generation not charged';
  const why: Why =
    state === 'MAKING' && failure !== null
      ? { reason: refusalReason(codeOf(failure.rejection)) }
      : state === 'MAKING' && isHeld
        ? { reason: reason('RUNNING', `a door makes it, under a lease until ${leaseUntil.toISOString()}`) }
        : state === 'PENDING' && closed != null
          ? {
              reason: reason(
                'DEAD',
                `it is ${closed}: no request can charge it`,
                '`examhall dead list --queue settlement`',
              ),
            }
          : {};
  const shown = state === 'PENDING' && closed != null ? closed : state;
  const what = row.usageConsumed ? 'usage consumed' : null;
  lines.push(traceLine({ at, kind: 'generation', id, state: shown, what, about: actor.id, endedAt, effect, ...why }));
}

/** A rejection is stored as JSON text. */
function codeOf(rejection: string): string {
  const parsed: unknown = JSON.parse(rejection);
  return typeof parsed === 'object' && parsed !== null && 'rejected' in parsed ? String(parsed.rejected) : 'unknown';
}
