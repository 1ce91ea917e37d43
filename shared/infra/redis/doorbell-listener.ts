import Queue from 'bee-queue';
import type { RedisClient } from 'redis';
import { openNodeRedis } from './connection.ts';
import { BELL_SETTINGS, type Ring } from './doorbell.ts';
import { keepConnected, type LinkLog, type LinkSession, withReplyTimeout } from './link.ts';
import { type RedisAddress, readRedisUrl } from './redis-url.ts';

export interface Listener {
  /** Accepts no further ring and waits up to `timeoutMs` for those in progress. Never rejects. */
  close(timeoutMs: number): Promise<void>;
}

export interface ListenerDeps {
  redisUrl: string;
  log: LinkLog;
  queue: string;
  /** Maximum number of rings answered at the same time. */
  concurrency: number;
  /**
   * Milliseconds until a ring whose worker died is delivered to another worker. Default 30 s, far above any pause of a healthy
   * event loop. Nothing depends on it: the lease in MongoDB frees the command, and a needless second delivery only costs a
   * refused claim.
   */
  stallMs?: number;
}

interface Consumer {
  /** Null until Redis has answered for the first time. */
  queue: Queue<Ring> | null;
}

const STALL_MS = 30_000;
/** First wait of bee-queue after a failed blocking pop; it doubles. By then the link has replaced the consumer. */
const POP_RETRY_MS = 100;
/** Extra time in `close` for acknowledging the rings that were in progress. */
const ACKNOWLEDGE_MS = 500;

/**
 * Calls `onRing` for every ring of a queue.
 *
 * A ring may be delivered twice, if its worker stalled. It may be lost, if Redis was unreachable or emptied, or if a connection
 * died while it delivered the ring. The claim in MongoDB decides which worker runs the command, and the poll finds lost ones.
 *
 * If `onRing` rejects, the error is logged and the ring is removed.
 */
export function answerDoorbell(deps: ListenerDeps, onRing: (ring: Ring) => Promise<void>): Listener {
  const { redisUrl, log, queue } = deps;
  const address = readRedisUrl(redisUrl);
  const running = new Set<PromiseWithResolvers<void>>();

  async function answer(content: unknown): Promise<void> {
    const ring = readRing(content);
    if (ring === null) {
      log.warn({ queue }, 'ring without id and key of a command dropped');
      return;
    }
    const answered = Promise.withResolvers<void>();
    running.add(answered);
    Promise.try(onRing, ring)
      .catch((error: unknown) => log.error({ queue, commandId: ring.id, err: error }, 'answering a ring failed'))
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
      // The queue waits for the rings of its own connection and acknowledges them. Rings of lost connections are only in `running`.
      const left = link.close(async (consumer) => consumer.queue?.close(Math.ceil(timeoutMs) + ACKNOWLEDGE_MS));
      const answers = Array.from(running, (answered) => answered.promise);
      await withReplyTimeout(timeoutMs, Promise.all(answers)).catch(() => {});
      // Stop waiting for runs that exceed the time limit and let their rings be acknowledged. Otherwise bee-queue's timer would
      // keep this process alive.
      for (const answered of running) answered.resolve();
      await left;
    },
  };
}

/** Returns the ring of a Redis job, or null if the job names no command. */
function readRing(content: unknown): Ring | null {
  if (content === null || typeof content !== 'object' || !('id' in content) || !('key' in content)) return null;
  const { id, key } = content;
  return typeof id === 'string' && typeof key === 'string' ? { id, key } : null;
}

/**
 * Opens a session of two connections: one for commands and one for the blocking pop. They are replaced together, because
 * bee-queue does not report a dead blocking connection or scripts that the server lost.
 */
function openConsumer(
  { queue: name, concurrency, stallMs = STALL_MS }: ListenerDeps,
  address: RedisAddress,
  answer: (content: unknown) => Promise<void>,
  lost: (reason: unknown) => void,
): LinkSession<Consumer> {
  const commands = openNodeRedis(address, lost);
  const blocking: LinkSession<RedisClient>[] = [];
  const consumer: Consumer = { queue: null };
  let ended = false;

  // bee-queue duplicates its client and does not always listen to the errors of the copy. Return a connection of ours, which does.
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
    // One script call frees the rings of dead workers. It fails if the server lost its scripts.
    check: async () => consumer.queue?.checkStalledJobs(),
    end() {
      ended = true;
      for (const session of [commands, ...blocking]) session.end();
      consumer.queue?.close(1).catch(() => {});
    },
  };
}

/**
 * Removes a stalled ring that has lost its content. This happens if two workers answered it because the first one stalled.
 * bee-queue would deliver it for ever, because a job without content is never acknowledged.
 */
async function dropIfEmpty(queue: Queue<Ring>, jobId: string): Promise<void> {
  try {
    if ((await queue.getJob(jobId)) === null) await queue.removeJob(jobId);
  } catch {
    // The connection is lost. The next stall check of any worker repeats this.
  }
}
