import Queue from 'bee-queue';
import type { RedisClient } from 'redis';
import { openNodeRedis } from './connection.ts';
import { keepConnected, type LinkLog, ReplyTimeout, withReplyTimeout } from './link.ts';
import { readRedisUrl } from './redis-url.ts';

export interface Doorbells {
  /**
   * Wakes a worker of the command's queue. Returns false if the ring could not be stored; the worker's poll then finds the command,
   * by default at most a second later. Never throws, takes at most `boundMs`, and returns at once while Redis is unreachable.
   */
  ring(command: BellCommand, attempt: number): Promise<boolean>;
  close(): Promise<void>;
}

/** Doorbells with the state of their connection. */
export interface LinkedDoorbells extends Doorbells {
  /** Returns true while Redis is connected; a check each second notices a silent end. */
  isConnected(): boolean;
}

/** A command in MongoDB, as a doorbell names it. */
interface BellCommand {
  queue: string;
  _id: string;
  key: string;
}

/** The whole content of a Redis job: id and key of a command in MongoDB. */
export interface Ring {
  id: string;
  key: string;
}

/**
 * Queue settings on which both ends of a doorbell must agree. An answered ring leaves nothing in Redis. No events are sent,
 * because replies have their own channel. There are no delayed jobs, because delays are stored in MongoDB.
 */
export const BELL_SETTINGS = {
  prefix: 'examhall',
  getEvents: false,
  sendEvents: false,
  storeJobs: false,
  activateDelayedJobs: false,
  removeOnSuccess: true,
  removeOnFailure: true,
  // Off, because the link owns the clients: a queue must not end a connection that other queues share.
  quitCommandClient: false,
} as const satisfies Queue.QueueSettings;

/** One connection and its queues. They are replaced together, because a queue assumes that the server still has its scripts. */
interface BellBoard {
  client: RedisClient;
  queues: Map<string, Promise<Queue<Ring>>>;
}

/** Pause before the next dial after a ring timed out. A slow Redis then delays one request by `boundMs`, not every request. */
const QUIET_MS = 1_000;

/**
 * Opens the doorbells of a process; `boundMs` (default 50) limits one ring, in milliseconds. `lost` receives the queue of each ring that
 * could not be stored.
 */
export function openDoorbells(deps: {
  redisUrl: string;
  log: LinkLog;
  boundMs?: number;
  lost?: (queue: string) => void;
}): LinkedDoorbells {
  const { redisUrl, log, boundMs = 50, lost } = deps;
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
    async ring(command, attempt) {
      const board = link.current();
      if (board === null) {
        lost?.(command.queue);
        return false;
      }
      try {
        await withReplyTimeout(boundMs, ringOn(board, command, attempt));
        return true;
      } catch (error) {
        link.drop(board, error, error instanceof ReplyTimeout ? QUIET_MS : undefined);
        lost?.(command.queue);
        return false;
      }
    },
    isConnected: () => link.current() !== null,
    close: () => link.close(),
  };
}

async function ringOn(board: BellBoard, command: BellCommand, attempt: number): Promise<void> {
  const { queue: name } = command;
  const opened = queueOf(board, name);
  try {
    await push(await opened, command, attempt);
  } catch (error) {
    if (!isNoScript(error)) throw error;
    // The server lost its scripts, by SCRIPT FLUSH or a failover. A new queue loads them again. If many rings fail together, only
    // the first one replaces the queue.
    if (board.queues.get(name) === opened) board.queues.delete(name);
    const replacement = queueOf(board, name);
    opened.then((old) => old.close()).catch(() => {});
    await push(await replacement, command, attempt);
  }
}

function queueOf(board: BellBoard, name: string): Promise<Queue<Ring>> {
  const known = board.queues.get(name);
  if (known !== undefined) return known;
  const queue = new Queue<Ring>(name, { ...BELL_SETTINGS, isWorker: false, redis: board.client });
  // The link listens to the client's errors itself. Without its own listener, the queue would throw them.
  queue.on('error', () => {});
  const ready = queue.ready();
  board.queues.set(name, ready);
  return ready;
}

async function push(queue: Queue<Ring>, { _id, key }: BellCommand, attempt: number): Promise<void> {
  // If the job already exists, bee-queue saves nothing and returns id null: this ring is already waiting.
  await queue.createJob({ id: _id, key }).setId(ringId(_id, attempt)).save();
}

/** Returns one id per command attempt. While that ring waits or runs, another one adds nothing; the next attempt rings anew. */
function ringId(commandId: string, attempt: number): string {
  return `${commandId}:${attempt}`;
}

function isNoScript(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'NOSCRIPT';
}
