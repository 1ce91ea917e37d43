import { hearBroadcasts, openBroadcaster } from './broadcast.ts';
import type { Log } from './link.ts';

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

export function openReplySender(deps: { redisUrl: string; log: Log }): ReplySender {
  const broadcaster = openBroadcaster({ ...deps, purpose: 'sending replies', channel: REPLY_CHANNEL });
  return { send: broadcaster.say, close: broadcaster.close };
}

export interface Patience {
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
  settled(patience: Patience): Promise<boolean>;
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

interface Ear {
  replied: boolean;
  /** Set while `settled` waits. */
  wake: ((settled: boolean) => void) | null;
}

/** Opens the receiving end of replies. All waiters of a process share one subscription, and each reply is one map lookup. */
export function openReplyWaiters({ redisUrl, log }: { redisUrl: string; log: Log }): ReplyWaiters {
  const ears = new Map<string, Set<Ear>>();
  let waiting = 0;

  function hear(commandId: string): void {
    for (const ear of ears.get(commandId) ?? []) {
      ear.replied = true;
      ear.wake?.(true);
    }
  }

  const link = hearBroadcasts({ redisUrl, log, purpose: 'receiving replies', channel: REPLY_CHANNEL, hear });
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
 * Resolves at the first of these: the reply, a poll that finds the command settled, the timeout, the abort.
 *
 * Pub/Sub sends a reply once, to the current subscribers only. The poll covers lost replies, so it also runs while the
 * subscription is up, half as often. Polls never overlap.
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
