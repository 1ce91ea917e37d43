import { queueDeliveries } from '#infra/mongo/notification/deliveries.ts';
import { findFanOut, forgetFanOut, moveToInbox, rowsOfFanOut } from '#infra/mongo/notification/stage-fan-out.ts';
import type { SettleProgress } from '#shared/notification/commands.ts';
import { REST_MS } from '#shared/notification/fan-out.ts';
import type { Outcome, Run, WorkerDeps } from '#workers/actor.ts';

type SettleRun = Run<'upkeep:fanouts'>;

const START: SettleProgress = { phase: 'deliveries', after: -1 };

/**
 * Settles a published fan-out: queues its deliveries, moves its rows to their inboxes and, when no reader can hold an older list
 * any more, forgets it. The two rests are what readers count on (`shared/notification/fan-out.ts`).
 */
export async function settleFanOut(deps: WorkerDeps, run: SettleRun): Promise<Outcome<'upkeep:fanouts'>> {
  const { fanOutId } = run.command.body;
  const fanOut = await findFanOut(deps.mongo, fanOutId);
  // Forgotten by a run whose end was not heard of.
  if (fanOut === null) return { kind: 'done', result: { fanOutId } };
  if (fanOut.publishedAt === null) return { kind: 'dead', error: new Error(`fan-out ${fanOutId} is not published`) };

  let at = run.command.progress ?? START;
  if (at.phase === 'deliveries') at = await queueAll(deps, run, at.after);
  if (at.phase === 'rows') {
    const restMs = fanOut.publishedAt.getTime() + REST_MS - deps.now();
    if (restMs > 0) return { kind: 'snooze', afterMs: restMs };
    at = await moveAll(deps, run, at.after);
  }
  if (at.phase !== 'leave') throw new Error(`fan-out ${fanOutId} was left in phase ${at.phase}`);
  const restMs = at.movedAt + REST_MS - deps.now();
  if (restMs > 0) return { kind: 'snooze', afterMs: restMs };
  return {
    kind: 'done',
    result: { fanOutId, rows: fanOut.rows },
    effects: (session) => forgetFanOut(deps.mongo, fanOutId, session),
  };
}

/** Each chunk's jobs and the note of them are one commit, so none is queued twice. */
async function queueAll(deps: WorkerDeps, run: SettleRun, from: number): Promise<SettleProgress> {
  const { channels, delivery } = deps.config.notification;
  let after = from;
  while (channels.size > 0) {
    run.signal.throwIfAborted();
    const rows = await rowsOfFanOut(deps.mongo, run.command.body.fanOutId, after);
    const last = rows.at(-1);
    if (last === undefined) break;
    after = last.ordinal;
    const wanted = rows.filter(({ place }) => place !== 'DELETED');
    await run.checkpoint({ phase: 'deliveries', after }, async (session) => {
      const options = { channels, maxAttempts: delivery.maxAttempts, now: deps.now(), session };
      await queueDeliveries(deps.mongo, wanted, options);
    });
  }
  return enter(run, { phase: 'rows', after: -1 });
}

async function moveAll(deps: WorkerDeps, run: SettleRun, from: number): Promise<SettleProgress> {
  const { fanOutId } = run.command.body;
  for (let after = from; ; ) {
    run.signal.throwIfAborted();
    const rows = await rowsOfFanOut(deps.mongo, fanOutId, after);
    const last = rows.at(-1);
    if (last === undefined) break;
    await moveToInbox(deps.mongo, fanOutId, { after, last: last.ordinal });
    after = last.ordinal;
    await enter(run, { phase: 'rows', after });
  }
  return enter(run, { phase: 'leave', movedAt: deps.now() });
}

async function enter(run: SettleRun, progress: SettleProgress): Promise<SettleProgress> {
  await run.checkpoint(progress, async () => undefined);
  return progress;
}
