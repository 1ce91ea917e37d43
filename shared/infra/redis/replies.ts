import { openBroadcaster, subscribeToBroadcasts } from './broadcast.ts';
import type { LinkLog } from './link.ts';

/** Carries ids of settled commands. Pub/Sub ignores database numbers, so ids of another deployment may arrive; they match no waiter. */
const REPLY_CHANNEL = 'examhall:replies';

export interface ReplySender {
  /**
   * Notifies the front doors that wait for a command that it has settled. Call it after the commit, never before. Returns at once
   * and never throws. While Redis is unreachable the reply is dropped, and the waiter's poll finds the outcome.
   */
  send(commandId: string): void;
  /** Waits up to half a second until the last replies are sent. */
  close(): Promise<void>;
}

/** Opens the link by which a worker publishes settled commands. A lost message delays only the waiting front door. */
export function openReplySender(deps: { redisUrl: string; log: LinkLog }): ReplySender {
  const broadcaster = openBroadcaster({ ...deps, purpose: 'sending replies', channel: REPLY_CHANNEL });
  return { send: broadcaster.publish, close: broadcaster.close };
}

export interface WaitOptions {
  /** Milliseconds until the wait ends with false. */
  timeoutMs: number;
  /** Milliseconds between two polls while the subscription is down; twice as many while it is up. Default 250. */
  pollMs?: number;
  /** Reads from MongoDB whether the command has settled. A rejection counts as "not yet". */
  isSettled(): Promise<boolean>;
  /** Ends the wait early, for example because the caller disconnected. */
  signal?: AbortSignal;
}

export interface ReplyWaiter {
  /**
   * Resolves with true once the command has settled, or with false at the timeout, on abort, `cancel` or close. Never rejects.
   * Frees the waiter.
   */
  settled(options: WaitOptions): Promise<boolean>;
  /** Frees the waiter. Does nothing after `settled`. */
  cancel(): void;
}

export interface ReplyWaiters {
  /** Registers a waiter. Call it before ringing: a fast worker's reply is lost if it arrives first. */
  register(commandId: string): ReplyWaiter;
  /** Returns the number of registered waiters, for metrics. */
  size(): number;
  /** Ends every wait with false. */
  close(): Promise<void>;
}

interface OpenWait {
  replied: boolean;
  /** Set while `settled` waits. */
  finish: ((settled: boolean) => void) | null;
}

/** Opens the receiving end of replies. All waiters of a process share one subscription, and each reply is one map lookup. */
export function openReplyWaiters({ redisUrl, log }: { redisUrl: string; log: LinkLog }): ReplyWaiters {
  const openWaits = new Map<string, Set<OpenWait>>();
  let waiting = 0;

  function receive(commandId: string): void {
    for (const wait of openWaits.get(commandId) ?? []) {
      wait.replied = true;
      wait.finish?.(true);
    }
  }

  const link = subscribeToBroadcasts({ redisUrl, log, purpose: 'receiving replies', channel: REPLY_CHANNEL, receive });
  const isConnected = () => link.current() !== null;

  return {
    register(commandId) {
      const wait: OpenWait = { replied: false, finish: null };
      const others = openWaits.get(commandId);
      if (others === undefined) openWaits.set(commandId, new Set([wait]));
      else others.add(wait);
      waiting += 1;

      function cancel(): void {
        const group = openWaits.get(commandId);
        if (group?.delete(wait) !== true) return;
        waiting -= 1;
        if (group.size === 0) openWaits.delete(commandId);
        wait.finish?.(false);
      }
      return {
        async settled(options) {
          try {
            return wait.replied || (await listenAndPoll(wait, options, isConnected));
          } finally {
            cancel();
          }
        },
        cancel,
      };
    },
    size: () => waiting,
    async close() {
      for (const group of openWaits.values()) for (const wait of group) wait.finish?.(false);
      await link.close();
    },
  };
}

/**
 * Resolves at the first of these: the reply, a poll that finds the command settled, the timeout, the abort.
 *
 * Pub/Sub sends a reply once, to the current subscribers only. The poll covers lost replies, so it also runs while the
 * subscription is up, half as often. Polls never overlap.
 */
function listenAndPoll(wait: OpenWait, options: WaitOptions, isConnected: () => boolean): Promise<boolean> {
  const { timeoutMs, pollMs = 250, isSettled, signal } = options;
  if (signal?.aborted === true) return Promise.resolve(false);
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout;
    let over = false;

    function finish(settled: boolean): void {
      over = true;
      clearTimeout(timer);
      clearTimeout(end);
      signal?.removeEventListener('abort', giveUp);
      wait.finish = null;
      resolve(settled);
    }
    function giveUp(): void {
      finish(false);
    }
    function pollLater(): void {
      timer = setTimeout(poll, isConnected() ? 2 * pollMs : pollMs);
    }
    async function poll(): Promise<void> {
      const seen = await Promise.try(isSettled).catch(() => false);
      if (over) return;
      if (seen) finish(true);
      else pollLater();
    }

    const end = setTimeout(giveUp, timeoutMs);
    signal?.addEventListener('abort', giveUp);
    wait.finish = finish;
    pollLater();
  });
}
