import Queue from 'bee-queue';
import type { RedisClient } from 'redis';
import { openNodeRedis } from './connection.ts';
import { BELL_SETTINGS, type Ring } from './doorbell.ts';
import { keepConnected, type Log, type Session, within } from './link.ts';
import { type RedisAddress, readRedisUrl } from './redis-url.ts';

export interface Listener {
  /** Takes no ring from now on and waits up to `timeoutMs` for the running ones. Never rejects. */
  close(timeoutMs: number): Promise<void>;
}

export interface ListenerDeps {
  redisUrl: string;
  log: Log;
  queue: string;
  /** Rings answered at the same time. */
  concurrency: number;
  /**
   * Milliseconds after which a ring whose worker died is heard by another. Far above any pause of a healthy event
   * loop: a false alarm only costs a claim that finds nothing, and MongoDB's lease has long freed the command.
   */
  stallMs?: number;
}

interface Consumer {
  /** Null until Redis has answered for the first time. */
  queue: Queue<Ring> | null;
}

const STALL_MS = 30_000;
/** bee-queue waits this long, doubling, after a failed blocking pop; by then the link has replaced the consumer. */
const POP_RETRY_MS = 100;
const ACKNOWLEDGE_MS = 500;

/**
 * Calls `onRing` for every ring of a queue. A ring may be heard twice (its worker stalled) or never (Redis was away,
 * emptied, or a connection died with a ring in its hand): the claim in MongoDB decides who works, the poll finds the
 * rest. A rejection of `onRing` is logged; the ring is removed all the same.
 */
export function answerDoorbell(deps: ListenerDeps, onRing: (commandId: string) => Promise<void>): Listener {
  const { redisUrl, log, queue } = deps;
  const address = readRedisUrl(redisUrl);
  const running = new Set<PromiseWithResolvers<void>>();

  async function answer(ring: unknown): Promise<void> {
    const commandId = ring !== null && typeof ring === 'object' && 'id' in ring ? ring.id : undefined;
    if (typeof commandId !== 'string') {
      log.warn({ queue }, 'A ring without a command id was dropped');
      return;
    }
    const answered = Promise.withResolvers<void>();
    running.add(answered);
    Promise.try(onRing, commandId)
      .catch((error: unknown) => log.error({ queue, commandId, err: error }, 'Answering a ring failed'))
      .finally(answered.resolve);
    await answered.promise;
    running.delete(answered);
  }

  const link = keepConnected<Consumer>({
    log,
    purpose: `doorbell of ${queue}`,
    label: address.label,
    open: (lost) => openConsumer(deps, address, answer, lost),
  });

  return {
    async close(timeoutMs) {
      // The queue waits for its own rings and acknowledges them; those of lost connections are only in `running`.
      const left = link.close(async (consumer) => consumer.queue?.close(Math.ceil(timeoutMs) + ACKNOWLEDGE_MS));
      const answers = Array.from(running, (answered) => answered.promise);
      await within(timeoutMs, Promise.all(answers)).catch(() => {});
      // What runs on is abandoned: its ring is acknowledged, or bee-queue's timer would hold this process for it.
      for (const answered of running) answered.resolve();
      await left;
    },
  };
}

/**
 * A session of two connections: one for commands, one that blocks. Both live and die together, since bee-queue goes
 * on with a dead blocking connection and with scripts that the server lost, and never says so.
 */
function openConsumer(
  { queue: name, concurrency, stallMs = STALL_MS }: ListenerDeps,
  address: RedisAddress,
  answer: (ring: unknown) => Promise<void>,
  lost: (reason: unknown) => void,
): Session<Consumer> {
  const commands = openNodeRedis(address, lost);
  const blocking: Session<RedisClient>[] = [];
  const consumer: Consumer = { queue: null };
  let ended = false;

  // bee-queue duplicates the client it is given and listens to its errors only now and then: ours is guarded always.
  commands.client.duplicate = () => {
    const session = openNodeRedis(address, lost);
    blocking.push(session);
    return session.client;
  };

  async function start(): Promise<void> {
    await commands.ready;
    if (ended) throw new Error('Ended before it was ready');
    const settings = { stallInterval: stallMs, initialRedisFailureRetryDelay: POP_RETRY_MS };
    const queue = new Queue<Ring>(name, { ...BELL_SETTINGS, ...settings, isWorker: true, redis: commands.client });
    consumer.queue = queue;
    queue.on('error', lost);
    queue.on('stalled', (jobId) => void dropIfEmpty(queue, jobId));
    await queue.ready();
    queue.process(concurrency, (job) => answer(job.data));
  }

  return {
    client: consumer,
    ready: start(),
    // One script call: it frees the rings of dead workers, and fails when the server lost its scripts.
    check: async () => consumer.queue?.checkStalledJobs(),
    end() {
      ended = true;
      for (const session of [commands, ...blocking]) session.end();
      consumer.queue?.close(1).catch(() => {});
    },
  };
}

/**
 * A ring that two workers answered, because the first stalled, can come back without its content. bee-queue would
 * hand it round for ever: nobody acknowledges a job that is not there.
 */
async function dropIfEmpty(queue: Queue<Ring>, jobId: string): Promise<void> {
  try {
    if ((await queue.getJob(jobId)) === null) await queue.removeJob(jobId);
  } catch {
    // The connection is gone; the next stall check of any worker does this again.
  }
}
