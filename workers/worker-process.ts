import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Config } from '../shared/infra/config/config.ts';
import { secretsOf } from '../shared/infra/config/secrets.ts';
import { VERSION } from '../shared/infra/config/version.ts';
import { openLog } from '../shared/infra/log/log.ts';
import { openMetrics } from '../shared/infra/metrics/metrics.ts';
import { openPapers } from '../shared/infra/mongo/attempt/papers.ts';
import { openMongo } from '../shared/infra/mongo/connect.ts';
import { schemaFaults } from '../shared/infra/mongo/schema/migrate.ts';
import { openServerClock } from '../shared/infra/mongo/server-clock.ts';
import { openDoorbells } from '../shared/infra/redis/doorbell.ts';
import { answerDoorbell } from '../shared/infra/redis/doorbell-listener.ts';
import { openReplySender } from '../shared/infra/redis/replies.ts';
import type { Actor } from './actor.ts';
import type { WorkerDeps } from './deps.ts';
import { startHeartbeat } from './heartbeat.ts';
import type { Kernel } from './run-command.ts';
import { postStandingCommands } from './standing-commands.ts';
import { openStatusServer } from './status-server.ts';
import { openWorker } from './worker.ts';

const PAPER_CACHE_BYTES = 64 * 1024 * 1024;
const RETRY_MS = 1_000;

/** Builds one worker process from its configuration, runs it until SIGTERM or SIGINT, and ends it in order. */
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

  const actor = makeActor({
    mongo,
    papers: openPapers(mongo, PAPER_CACHE_BYTES),
    now: clock.now,
    log,
    config,
    ring: (queue, commandId) => void doorbells.ring(queue, commandId, 0),
    alarm: (alarm) => alarms.add({ name: alarm }),
  });
  let ready = false;
  if (config.metricsPort !== null) {
    const { host, metricsPort: port, opsToken, production } = config;
    openStatusServer({ host, port, metrics, log, opsToken, production, isReady: () => ready });
  }
  const stop = new AbortController();
  const kernel: Kernel = {
    mongo,
    log,
    workerId: `${name}@${hostname()}:${process.pid}:${randomUUID().slice(0, 8)}`,
    leaseMs: config.worker.leaseMs,
    announce: (commandId) => void replies.send(commandId),
    count: (queue, ending) => endings.add({ queue, ending }),
    random: Math.random,
    stop: stop.signal,
  };

  await untilReady(async () => {
    const faults = await schemaFaults(mongo);
    if (faults.length > 0) throw new Error(faults.join('; '));
    await clock.measure();
    await postStandingCommands(mongo, actor, clock.now());
  });
  const { concurrency, pollIntervalMs: pollMs } = config.worker;
  const worker = openWorker(kernel, actor, { concurrency, pollMs, now: clock.now });
  const listeners = actor.queues.map((queue) =>
    answerDoorbell({ ...redis, queue, concurrency }, async (id) => void (await worker.knock(queue, id))),
  );
  const heart = startHeartbeat(mongo, {
    ...{ workerId: kernel.workerId, actor: name, version: VERSION, slots: concurrency, busy: worker.busy },
  });
  ready = true;
  log.info({ queues: actor.queues, concurrency }, 'worker is ready');
  onStopSignal(async () => {
    ready = false;
    log.info({ busy: worker.busy() }, 'worker is stopping');
    const drained = Promise.all([
      worker.drain(),
      ...listeners.map((listener) => listener.close(config.shutdown.timeoutMs)),
    ]);
    const inTime = await within(drained, config.shutdown.timeoutMs);
    // What did not end in time is cut short: its run sees the signal and puts its command back, unspent.
    if (!inTime) {
      stop.abort(new Error('the process is stopping'));
      await within(drained, 2_000);
    }
    await heart.stop();
    clock.stop();
    await Promise.allSettled([doorbells.close(), replies.close(), mongo.close()]);
    flush();
    process.exit(inTime ? 0 : 1);
  });

  /** A worker starts before MongoDB is there and before the release has run; it only has nothing to do yet. */
  async function untilReady(attempt: () => Promise<void>): Promise<void> {
    for (let said = ''; ; ) {
      try {
        return await attempt();
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        if (message !== said) log.warn({ err: error }, 'not ready yet');
        said = message;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }
}

/** Runs `end` once at the first signal; a second signal ends the process as it is. */
function onStopSignal(end: () => Promise<void>): void {
  let stopping = false;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (stopping) process.exit(1);
      stopping = true;
      void end();
    });
  }
}

async function within(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  const done = await Promise.race([work.then(() => true as const), late]);
  clearTimeout(timer);
  return done;
}
