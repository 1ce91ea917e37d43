import { hearBroadcasts, openBroadcaster } from './broadcast.ts';
import type { Log } from './link.ts';

/** Carries ids of settled commands. Pub/Sub ignores database numbers; foreign ids find no waiter. */
const REPLY_CHANNEL = 'examhall:replies';

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
  const broadcaster = openBroadcaster({ ...deps, purpose: 'sending replies', channel: REPLY_CHANNEL });
  return { send: broadcaster.say, close: broadcaster.close };
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
