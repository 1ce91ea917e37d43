import { queueDeliveries } from '#infra/mongo/notification/deliveries.ts';
import { preferencesOf } from '#infra/mongo/notification/preferences.ts';
import { deleteFanOut, findFanOut, moveToInbox, rowsOfFanOut } from '#infra/mongo/notification/stage-fan-out.ts';
import { eraseBelowMeanwhile } from '#infra/mongo/person/stored-meanwhile.ts';
import type { FinishProgress } from '#shared/notification/commands.ts';
import { READER_GRACE_MS } from '#shared/notification/fan-out.ts';
import { PERSONAL_CHANNELS } from '#shared/notification/preferences.ts';
import type { Outcome, Run, WorkerDeps } from '#workers/actor.ts';

type FinishRun = Run<'upkeep:fanouts'>;

const START: FinishProgress = { phase: 'deliveries', after: -1 };

/**
 * Finishes a published fan-out: queues its deliveries, moves its rows to their inboxes, and deletes it once no reader can hold an
 * older list. Readers depend on the two waits (`shared/notification/fan-out.ts`).
 */
export async function finishFanOut(deps: WorkerDeps, run: FinishRun): Promise<Outcome<'upkeep:fanouts'>> {
  const { fanOutId } = run.command.body;
  const fanOut = await findFanOut(deps.mongo, fanOutId, run.session);
  // An earlier run deleted the fan-out, but its end was not stored.
  if (fanOut === null) return { kind: 'done', result: { fanOutId } };
  if (fanOut.publishedAt === null) return { kind: 'dead', error: new Error(`fan-out ${fanOutId} is not published`) };

  let at = run.command.progress ?? START;
  if (at.phase === 'deliveries') at = await queueAll(deps, run, at.after);
  if (at.phase === 'rows') {
    const waitMs = fanOut.publishedAt.getTime() + READER_GRACE_MS - deps.now();
    if (waitMs > 0) return { kind: 'snooze', afterMs: waitMs };
    at = await moveAll(deps, run, at.after);
  }
  if (at.phase !== 'leave') throw new Error(`fan-out ${fanOutId} was left in phase ${at.phase}`);
  const waitMs = at.movedAt + READER_GRACE_MS - deps.now();
  if (waitMs > 0) return { kind: 'snooze', afterMs: waitMs };
  return {
    kind: 'done',
    result: { fanOutId, rows: fanOut.rows },
    effects: (session) => deleteFanOut(deps.mongo, fanOutId, session),
  };
}

/** Queues the deliveries in chunks. A chunk's jobs and the progress commit together, so no job is queued twice. */
async function queueAll(deps: WorkerDeps, run: FinishRun, from: number): Promise<FinishProgress> {
  const { channels, delivery } = deps.config.notification;
  let after = from;
  while (channels.size > 0) {
    run.signal.throwIfAborted();
    const rows = await rowsOfFanOut(deps.mongo, run.command.body.fanOutId, { after, session: run.session });
    const last = rows.at(-1);
    if (last === undefined) break;
    after = last.ordinal;
    const wanted = rows.filter(({ place }) => place !== 'DELETED');
    const preferences = await choicesOf(deps, run, wanted);
    await run.checkpoint({ phase: 'deliveries', after }, async (session) => {
      const options = { channels, maxAttempts: delivery.maxAttempts, preferences, now: deps.now(), session };
      await queueDeliveries(deps.mongo, wanted, options);
    });
    await eraseBelowMeanwhile(deps.mongo, wanted, { now: deps.now(), session: run.session });
  }
  return storeProgress(run, { phase: 'rows', after: -1 });
}

/** Returns the preferences of the recipients, if a configured channel can be turned off. */
async function choicesOf({ mongo, config }: WorkerDeps, { session }: FinishRun, rows: readonly { userId: string }[]) {
  const { channels } = config.notification;
  if (!PERSONAL_CHANNELS.some((channel) => channels.has(channel))) return new Map();
  const userIds = rows.map(({ userId }) => userId);
  return preferencesOf(mongo, userIds, session);
}

async function moveAll(deps: WorkerDeps, run: FinishRun, from: number): Promise<FinishProgress> {
  const { fanOutId } = run.command.body;
  for (let after = from; ; ) {
    run.signal.throwIfAborted();
    const rows = await rowsOfFanOut(deps.mongo, fanOutId, { after, session: run.session });
    const last = rows.at(-1);
    if (last === undefined) break;
    await moveToInbox(deps.mongo, fanOutId, { after, last: last.ordinal });
    after = last.ordinal;
    await storeProgress(run, { phase: 'rows', after });
  }
  return storeProgress(run, { phase: 'leave', movedAt: deps.now() });
}

async function storeProgress(run: FinishRun, progress: FinishProgress): Promise<FinishProgress> {
  await run.checkpoint(progress, async () => undefined);
  return progress;
}
