import type { Redis } from 'ioredis';
import { keepIoredis, openIoredis } from './connection.ts';
import { keepConnected, type Log } from './link.ts';
import { readRedisUrl } from './redis-url.ts';
import { within } from './within.ts';

/** Carries ids of settled commands. Pub/Sub ignores database numbers; foreign ids find no waiter. */
const REPLY_CHANNEL = 'examhall:replies';
const PUBLISH_PATIENCE_MS = 1_000;
/** Replies on their way to a Redis that hangs; more are dropped, their waiters poll. */
const MOST_IN_FLIGHT = 1_000;

export interface ReplySender {
  /**
   * Tells whoever waits that a command has settled; call it after the commit, never before. Returns at once, never
   * throws. The reply is dropped while Redis is away: the waiter's poll finds the outcome.
   */
  send(commandId: string): void;
  /** Lets the last replies leave, for half a second at most. */
  close(): Promise<void>;
}

export function openReplySender(deps: { redisUrl: string; log: Log }): ReplySender {
  const link = keepIoredis({ ...deps, purpose: 'sending replies' });
  const inFlight = new Set<Promise<void>>();

  async function publish(client: Redis, commandId: string): Promise<void> {
    try {
      await within(PUBLISH_PATIENCE_MS, client.publish(REPLY_CHANNEL, commandId));
    } catch (error) {
      link.drop(client, error);
    }
  }

  return {
    send(commandId) {
      const client = link.current();
      if (client === null || inFlight.size >= MOST_IN_FLIGHT) return;
      const sent = publish(client, commandId).finally(() => inFlight.delete(sent));
      inFlight.add(sent);
    },
    close: () => link.close(() => within(PUBLISH_PATIENCE_MS / 2, Promise.all(inFlight))),
  };
}

export interface Patience {
  /** Milliseconds until the waiter gives up. */
  timeoutMs: number;
  /** Milliseconds between two looks while replies cannot arrive; twice as many while they can. Default 250. */
  pollMs?: number;
  /** Reads from MongoDB whether the command has settled. Its rejections count as "not yet". */
  isSettled(): Promise<boolean>;
  /** Ends the wait early, e.g. because the caller hung up. */
  signal?: AbortSignal;
}

export interface ReplyWaiter {
  /** True once the command has settled; false at the timeout, on abort and on close. Never rejects. Frees the waiter. */
  settled(patience: Patience): Promise<boolean>;
  /** Frees the waiter; harmless after `settled`. */
  cancel(): void;
}

export interface ReplyWaiters {
  /** Register before ringing, or a fast worker's reply comes before anyone waits for it. */
  register(commandId: string): ReplyWaiter;
  /** Waiters that are registered now, for metrics. */
  size(): number;
  /** Ends every wait with false. */
  close(): Promise<void>;
}

interface Ear {
  replied: boolean;
  /** Set while `settled` waits. */
  wake: ((settled: boolean) => void) | null;
}

/** All waiters of a process share one subscription; a reply costs one look into a map. */
export function openReplyWaiters({ redisUrl, log }: { redisUrl: string; log: Log }): ReplyWaiters {
  const address = readRedisUrl(redisUrl);
  const ears = new Map<string, Set<Ear>>();
  let waiting = 0;

  function hear(commandId: string): void {
    for (const ear of ears.get(commandId) ?? []) {
      ear.replied = true;
      ear.wake?.(true);
    }
  }

  const link = keepConnected<Redis>({
    log,
    purpose: 'receiving replies',
    label: address.label,
    open(lost) {
      const session = openIoredis(address, lost);
      session.client.on('message', (_channel: string, commandId: string) => hear(commandId));
      return { ...session, ready: session.ready.then(() => session.client.subscribe(REPLY_CHANNEL)) };
    },
  });
  const canHear = () => link.current() !== null;

  return {
    register(commandId) {
      const ear: Ear = { replied: false, wake: null };
      const others = ears.get(commandId);
      if (others === undefined) ears.set(commandId, new Set([ear]));
      else others.add(ear);
      waiting += 1;

      function cancel(): void {
        const group = ears.get(commandId);
        if (group?.delete(ear) !== true) return;
        waiting -= 1;
        if (group.size === 0) ears.delete(commandId);
        ear.wake?.(false);
      }
      return {
        async settled(patience) {
          try {
            return ear.replied || (await listenAndPoll(ear, patience, canHear));
          } finally {
            cancel();
          }
        },
        cancel,
      };
    },
    size: () => waiting,
    async close() {
      for (const group of ears.values()) for (const ear of group) ear.wake?.(false);
      await link.close();
    },
  };
}

/**
 * Whichever comes first: the reply, a poll that sees the outcome, the timeout, the abort. The poll closes every gap
 * that Pub/Sub leaves (a reply is sent once, to those who listen just then), so it runs with a live subscription too,
 * only less often. A look begins after the one before has ended.
 */
function listenAndPoll(ear: Ear, patience: Patience, canHear: () => boolean): Promise<boolean> {
  const { timeoutMs, pollMs = 250, isSettled, signal } = patience;
  if (signal?.aborted === true) return Promise.resolve(false);
  return new Promise((resolve) => {
    let poll: NodeJS.Timeout;
    let over = false;

    function finish(settled: boolean): void {
      over = true;
      clearTimeout(poll);
      clearTimeout(end);
      signal?.removeEventListener('abort', giveUp);
      ear.wake = null;
      resolve(settled);
    }
    function giveUp(): void {
      finish(false);
    }
    function lookLater(): void {
      poll = setTimeout(look, canHear() ? 2 * pollMs : pollMs);
    }
    async function look(): Promise<void> {
      const seen = await Promise.try(isSettled).catch(() => false);
      if (over) return;
      if (seen) finish(true);
      else lookLater();
    }

    const end = setTimeout(giveUp, timeoutMs);
    signal?.addEventListener('abort', giveUp);
    ear.wake = finish;
    lookLater();
  });
}
