import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Config } from '../shared/infra/config/config.ts';
import { secretsOf } from '../shared/infra/config/secrets.ts';
import { VERSION } from '../shared/infra/config/version.ts';
import { openLog } from '../shared/infra/log/log.ts';
import { openMetrics } from '../shared/infra/metrics/metrics.ts';
import { openPapers } from '../shared/infra/mongo/attempt/papers.ts';
import { openMongo } from '../shared/infra/mongo/connect.ts';
import { openServerClock } from '../shared/infra/mongo/server-clock.ts';
import { checkUsable, untilUsable } from '../shared/infra/mongo/until-usable.ts';
import { openBackground } from '../shared/infra/process/background.ts';
import { endsWithin } from '../shared/infra/process/bounded.ts';
import { drainOnSignal } from '../shared/infra/process/drain.ts';
import { type FollowedModels, openFollowedModels } from '../shared/infra/providers/followed-models.ts';
import { type ChangeTeller, openChangeTeller } from '../shared/infra/redis/change-bell.ts';
import { openDoorbells } from '../shared/infra/redis/doorbell.ts';
import { answerDoorbell } from '../shared/infra/redis/doorbell-listener.ts';
import { openReplySender } from '../shared/infra/redis/replies.ts';
import type { Actor } from './actor.ts';
import type { Alarm, WorkerDeps } from './deps.ts';
import { startHeartbeat } from './heartbeat.ts';
import type { Kernel } from './kernel.ts';
import { postStandingCommands } from './standing-commands.ts';
import { openStatusServer } from './status-server.ts';
import { openWorker } from './worker.ts';

const PAPER_CACHE_BYTES = 64 * 1024 * 1024;
/** Calls at once, and calls waiting, of best-effort work. */
const BACKGROUND = { concurrency: 16, maxWaiting: 1_000 };
/** At the end of the time for a stop: for runs that were cut short to put their commands back. */
const PUT_BACK_MS = 2_000;
/** For best-effort work at the very end: nobody waits for it, and a neighbour that hangs must not hold up a stop. */
const LAST_BACKGROUND_MS = 1_000;

/** Builds one worker process from its configuration and runs it until SIGTERM or SIGINT. */
export async function startWorkerProcess(
  config: Config,
  name: string,
  makeActor: (deps: WorkerDeps) => Actor,
): Promise<void> {
  const { log, flush } = openLog({ level: config.logLevel, name, secrets: secretsOf(config) });
  const metrics = openMetrics({ process: true });
  const mongo = openMongo({ ...config.mongodb, appName: `examhall-${name}` });
  const redis = { redisUrl: config.redis.url, log };
  const [clock, doorbells, replies] = [openServerClock(mongo), openDoorbells(redis), openReplySender(redis)];
  const alarms = metrics.counter('examhall_alarms_total', 'Things an operator should look at', ['name']);
  const endings = metrics.counter('examhall_commands_total', 'Runs of commands by how they ended', ['queue', 'ending']);
  const draining = new AbortController();
  const cutShort = new AbortController();
  let ready = false;

  if (config.metricsPort !== null) {
    const { host, metricsPort: port, opsToken, production } = config;
    const isReady = () => ready && !draining.signal.aborted;
    openStatusServer({ host, port, metrics, log, opsToken, production, isReady });
  }
  const alarm = (alarmed: Alarm) => alarms.add({ name: alarmed });
  const background = openBackground({
    ...BACKGROUND,
    dropped: (count) => alarms.add({ name: 'background_dropped' satisfies Alarm }, count),
    failed: (err) => log.warn({ err }, 'background work failed'),
  });
  // Only one actor tells of jobs: the others need no link for it.
  let jobTeller: ChangeTeller | undefined;
  const tellJob = (jobId: string) => {
    jobTeller ??= openChangeTeller({ ...redis, of: 'jobs' });
    jobTeller.tell([jobId]);
  };
  let followed: FollowedModels | undefined;
  const models = () => {
    followed ??= openFollowedModels({ ...redis, settings: config.classifier, mongo, now: clock.now });
    return followed;
  };
  const actor = makeActor({
    mongo,
    papers: openPapers(mongo, PAPER_CACHE_BYTES),
    now: clock.now,
    log,
    config,
    ring: (queue, commandId) => void doorbells.ring(queue, commandId, 0),
    tellJob,
    models,
    background,
    alarm,
  });
  const kernel: Kernel = {
    mongo,
    log,
    workerId: `${name}@${hostname()}:${process.pid}:${randomUUID().slice(0, 8)}`,
    leaseMs: actor.leaseMs ?? config.worker.leaseMs,
    announce: (commandId) => void replies.send(commandId),
    count: (queue, ending) => endings.add({ queue, ending }),
    random: Math.random,
    stop: cutShort.signal,
  };
  for (const warning of config.warnings) log.warn({}, warning);

  let working: Working | undefined;
  // Before the wait for MongoDB, which may be long: a stop must find somebody who listens.
  drainOnSignal({
    signals: process,
    exit: process.exit,
    log,
    draining,
    graceMs: 0,
    timeoutMs: config.shutdown.timeoutMs,
    async close(timeoutMs) {
      const whole = working === undefined || (await ended(working.drain(timeoutMs), timeoutMs, cutShort));
      const dropped = await background.end(whole ? LAST_BACKGROUND_MS : 0);
      if (dropped > 0) log.info({ dropped }, 'best-effort work was left undone');
      return whole;
    },
    async after() {
      await working?.heart.stop();
      clock.stop();
      // Before MongoDB: the last usage events are still to be written.
      await followed?.close();
      await Promise.allSettled([doorbells.close(), replies.close(), jobTeller?.close(), mongo.close()]);
      flush();
    },
  });

  const check = async (): Promise<void> => {
    await checkUsable(mongo, clock);
    await postStandingCommands(mongo, actor, clock.now());
  };
  if (!(await untilUsable({ check, log, stop: draining.signal }))) return;
  const { concurrency = config.worker.concurrency, pollMs = config.worker.pollIntervalMs } = actor;
  const worker = openWorker(kernel, actor, { concurrency, pollMs, now: clock.now });
  const listeners = actor.queues.map((queue) =>
    answerDoorbell({ ...redis, queue, concurrency }, async (id) => void (await worker.knock(queue, id))),
  );
  const heart = startHeartbeat(mongo, {
    workerId: kernel.workerId,
    actor: name,
    queues: actor.queues,
    version: VERSION,
    slots: concurrency * actor.queues.length,
    busy: worker.busy,
  });
  const drain = (timeoutMs: number) =>
    Promise.all([worker.drain(), ...listeners.map((listener) => listener.close(timeoutMs))]);
  working = { heart, drain };
  ready = true;
  log.info({ queues: actor.queues, concurrency }, 'worker is ready');
}

/** What runs from the moment at which the database is usable. */
interface Working {
  heart: { stop(): Promise<void> };
  /** Claims nothing more; resolves when the last run has ended. */
  drain(timeoutMs: number): Promise<unknown>;
}

/**
 * Whether the runs ended in time. Those that did not are cut short: they see the signal and put their commands back,
 * unspent; all of it within `timeoutMs`, after which whoever waits for this process may kill it.
 */
async function ended(drained: Promise<unknown>, timeoutMs: number, cutShort: AbortController): Promise<boolean> {
  const putBackMs = Math.min(PUT_BACK_MS, timeoutMs / 2);
  if (await endsWithin(drained, timeoutMs - putBackMs)) return true;
  cutShort.abort(new Error('the process is stopping'));
  await endsWithin(drained, putBackMs);
  return false;
}
