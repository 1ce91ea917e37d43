import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type Config, VERSION } from '#infra/config/config.ts';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { EndedRuns } from '#infra/mongo/live-workers.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { isRouter } from '#infra/mongo/probe/server.ts';
import { checkUsable, untilUsable } from '#infra/mongo/until-usable.ts';
import { LAST_BACKGROUND_MS, settlesWithin } from '#infra/process/background.ts';
import { drainOnSignal, OWN_PROCESS } from '#infra/process/drain.ts';
import { measureEventLoop } from '#infra/process/event-loop.ts';
import { answerDoorbell } from '#infra/redis/doorbell-listener.ts';
import { UNLIMITED_ATTEMPTS } from '#shared/kernel/command.ts';
import type { HeldLoop } from '#shared/operations/alarms.ts';
import { type Actor, queuesOf } from './actor.ts';
import type { MakeActor } from './actors.ts';
import { startHeartbeat } from './heartbeat.ts';
import { openIsolation } from './isolation.ts';
import type { Kernel } from './life.ts';
import { runMetrics } from './run-metrics.ts';
import { openRuntime, type WorkerRuntime } from './runtime.ts';
import { openGroups } from './settle.ts';
import { openWorker, type Worker } from './worker.ts';

/** Last part of the shutdown time, in milliseconds. In it, runs that were cut short snooze their commands. */
const SNOOZE_MS = 2_000;

/**
 * Builds one worker process from its configuration and runs it until SIGTERM or SIGINT. Resolves with its log once it is ready, or once
 * it drains.
 */
export async function startWorkerProcess(
  config: Config,
  name: string,
  makeActor: MakeActor,
  host = OWN_PROCESS,
): Promise<Log> {
  const runtime = await openRuntime(config, name, host.logTo);
  const { deps, clock, metrics, background, health } = runtime;
  const { mongo, log } = deps;
  const draining = new AbortController();
  const cutShort = new AbortController();
  let loops: RunningLoops | undefined;

  if (config.metricsPort !== null && metrics.served !== null) {
    const { host, metricsPort: port, opsReadToken, production } = config;
    const isReady = async () => (await health.isUp()) && !draining.signal.aborted;
    const { openStatusServer } = await import('./status-server.ts');
    openStatusServer({ host, port, metrics: metrics.served, log, opsReadToken, production, isReady });
  }
  const actor = makeActor(deps);
  const leaseMs = actor.leaseMs ?? config.worker.leaseMs;
  const measured = runMetrics(metrics, { queues: queuesOf(actor), leaseMs });
  const kernel: Kernel = {
    mongo,
    log,
    workerId: `${name}@${hostname()}:${process.pid}:${randomUUID().slice(0, 8)}`,
    leaseMs,
    ...openGroups(mongo),
    publishSettled: runtime.publishSettled,
    count: measured.count,
    ran: measured.ran,
    random: Math.random,
    stop: cutShort.signal,
  };
  for (const warning of config.warnings) log.warn({}, warning);

  // Install the signal handlers before waiting for MongoDB: SIGTERM must work during that wait.
  drainOnSignal({
    signals: host.signals,
    exit: host.exit,
    log,
    draining,
    graceMs: 0,
    timeoutMs: config.shutdown.timeoutMs,
    async close(timeoutMs) {
      const whole = loops === undefined || (await endRuns(loops.drain(timeoutMs), timeoutMs, cutShort));
      const dropped = await background.end(whole ? LAST_BACKGROUND_MS : 0);
      if (dropped > 0) log.info({ dropped }, 'background work dropped at shutdown');
      return whole;
    },
    async after() {
      await loops?.heart.stop();
      await runtime.close();
    },
  });

  const check = async (): Promise<void> => {
    await checkUsable(mongo, clock);
    await postRecurringCommands(mongo, actor, clock.now());
  };
  if (await untilUsable({ check, log, stop: draining.signal })) {
    const router = await isRouter(mongo).catch(() => undefined);
    const heldLoop = measureEventLoop({ metrics: metrics.served, now: clock.now, stop: draining.signal });
    loops = startLoops(runtime, kernel, { name, actor, router, ended: measured.ended, heldLoop, env: host.env });
    measured.slotsOf(loops.worker);
    health.begin();
  }
  return log;
}

/**
 * Returns true if the runs ended in time. The others are cut short: the signal makes them snooze their commands, which spends no
 * attempt. All of it happens within `timeoutMs`, because the platform may kill the process afterwards.
 */
async function endRuns(drained: Promise<unknown>, timeoutMs: number, cutShort: AbortController): Promise<boolean> {
  const snoozeMs = Math.min(SNOOZE_MS, timeoutMs / 2);
  if (await settlesWithin(drained, timeoutMs - snoozeMs)) return true;
  cutShort.abort(new Error('the process is stopping'));
  await settlesWithin(drained, snoozeMs);
  return false;
}

/** The loops that run once the database is usable. */
interface RunningLoops {
  worker: Pick<Worker, 'slots'>;
  heart: { stop(): Promise<void> };
  /** Stops claiming. Resolves when the last run has ended. */
  drain(timeoutMs: number): Promise<unknown>;
}

interface LoopOptions {
  name: string;
  actor: Actor;
  /** True if MongoDB is a router, through which one statement polls all queues of the process; undefined: unknown. */
  router: boolean | undefined;
  /** Returns the number of runs since the start. */
  ended: () => EndedRuns;
  heldLoop: () => HeldLoop | null;
  /** The environment of threads; undefined: that of the process. */
  env: NodeJS.ProcessEnv | undefined;
}

/** Starts the worker's poll, its doorbell listeners, its isolation of suspects and its heartbeat. */
function startLoops(
  { deps, clock, redis, unanswering }: WorkerRuntime,
  kernel: Kernel,
  { name, actor, router, ended, heldLoop, env }: LoopOptions,
): RunningLoops {
  const { mongo, log, config } = deps;
  const queues = queuesOf(actor);
  const { concurrency = config.worker.concurrency, pollMs = config.worker.pollIntervalMs } = actor;
  const pollsTogether = router === true;
  const worker = openWorker(kernel, actor, { concurrency, pollMs, now: clock.now, pollsTogether });
  const isolation = openIsolation(kernel, { name, actor, env });
  const listeners = queues.map((queue) =>
    answerDoorbell({ ...redis, queue, concurrency }, async ({ id, key }) => {
      await worker.tryRun({ _id: id, queue, key });
    }),
  );
  const heart = startHeartbeat(mongo, {
    workerId: kernel.workerId,
    actor: name,
    queues,
    version: VERSION,
    router,
    slots: concurrency * queues.length,
    busy: worker.busy,
    unanswering,
    ended,
    heldLoop,
  });
  log.info({ queues, concurrency }, 'worker is ready');
  return {
    worker,
    heart,
    drain: (timeoutMs) =>
      Promise.all([worker.drain(), isolation.drain(), ...listeners.map((listener) => listener.close(timeoutMs))]),
  };
}

/**
 * Inserts the recurring commands of an actor that do not exist yet. They never settle, because each run snoozes its command
 * until the next time. However many processes run this actor, only one runs a given sweep at a time.
 */
export async function postRecurringCommands(mongo: Mongo, actor: Actor, now: number): Promise<void> {
  for (const recurring of actor.recurring ?? []) {
    await postCommand(mongo, newCommand({ ...recurring, body: {}, maxAttempts: UNLIMITED_ATTEMPTS, now }));
  }
}
