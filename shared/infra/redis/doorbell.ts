import Queue from 'bee-queue';
import type { RedisClient } from 'redis';
import { openNodeRedis } from './connection.ts';
import { keepConnected, type Log, OutOfTime, within } from './link.ts';
import { readRedisUrl } from './redis-url.ts';

export interface Doorbells {
  /**
   * Wakes the worker of `queue`. False means that nobody was woken and the worker's poll will find the command, at
   * most a second later. Never throws, never takes longer than the bound, and costs nothing while Redis is away.
   */
  ring(queue: string, commandId: string, attempt: number): Promise<boolean>;
  close(): Promise<void>;
}

/** All a job holds. Everything else is in MongoDB, under this id. */
export interface Ring {
  id: string;
}

/**
 * What both ends of a doorbell must agree on. Nothing is kept in Redis once a ring has been answered, no events are
 * sent (the replies travel on their own channel) and no delayed jobs exist (delays live in MongoDB).
 */
export const BELL_SETTINGS = {
  prefix: 'examhall',
  getEvents: false,
  sendEvents: false,
  storeJobs: false,
  activateDelayedJobs: false,
  removeOnSuccess: true,
  removeOnFailure: true,
  // Off, because the link owns its clients: a queue must not quit one that other queues share.
  quitCommandClient: false,
} as const satisfies Queue.QueueSettings;

/** One connection and the queues built on it: both are replaced together, as a queue trusts its server's scripts. */
interface BellBoard {
  client: RedisClient;
  queues: Map<string, Promise<Queue<Ring>>>;
}

/** After a ring ran out of time, Redis is left alone for this long: a slow Redis may cost one request its bound, not all. */
const QUIET_MS = 1_000;

export function openDoorbells(deps: { redisUrl: string; log: Log; boundMs?: number }): Doorbells {
  const { redisUrl, log, boundMs = 50 } = deps;
  const address = readRedisUrl(redisUrl);
  const link = keepConnected<BellBoard>({
    log,
    purpose: 'doorbells',
    label: address.label,
    open(lost) {
      const session = openNodeRedis(address, lost);
      return { ...session, client: { client: session.client, queues: new Map() } };
    },
  });

  return {
    async ring(queue, commandId, attempt) {
      const board = link.current();
      if (board === null) return false;
      try {
        await within(boundMs, ringOn(board, queue, commandId, attempt));
        return true;
      } catch (error) {
        link.drop(board, error, error instanceof OutOfTime ? QUIET_MS : undefined);
        return false;
      }
    },
    close: () => link.close(),
  };
}

async function ringOn(board: BellBoard, name: string, commandId: string, attempt: number): Promise<void> {
  const opened = queueOf(board, name);
  try {
    await push(await opened, commandId, attempt);
  } catch (error) {
    if (!isNoScript(error)) throw error;
    // SCRIPT FLUSH or a fail-over: the server forgot the scripts, a new queue loads them. Of many rings that fail
    // together, the first replaces the queue.
    if (board.queues.get(name) === opened) board.queues.delete(name);
    const replacement = queueOf(board, name);
    opened.then((old) => old.close()).catch(() => {});
    await push(await replacement, commandId, attempt);
  }
}

function queueOf(board: BellBoard, name: string): Promise<Queue<Ring>> {
  const known = board.queues.get(name);
  if (known !== undefined) return known;
  const queue = new Queue<Ring>(name, { ...BELL_SETTINGS, isWorker: false, redis: board.client });
  // The link hears the client's errors itself; without a listener of its own the queue would throw them.
  queue.on('error', () => {});
  const ready = queue.ready();
  board.queues.set(name, ready);
  return ready;
}

async function push(queue: Queue<Ring>, commandId: string, attempt: number): Promise<void> {
  // A job that is already there is saved with id null: the bell rings already, which is as good.
  await queue.createJob({ id: commandId }).setId(ringId(commandId, attempt)).save();
}

/** One ring per attempt: while it waits or is answered, ringing again adds nothing; the next attempt rings anew. */
function ringId(commandId: string, attempt: number): string {
  return `${commandId}:${attempt}`;
}

function isNoScript(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'NOSCRIPT';
}
