import { type Broadcaster, openBroadcaster, publishOnce, subscribeToBroadcasts } from './broadcast.ts';
import type { LinkLog } from './link.ts';

/** The Pub/Sub channel of each kind of change. A message is a JSON array of the ids that changed. */
const CHANNELS = {
  /** Users whose inbox has changed. */
  inboxes: 'examhall:inbox',
  /** Classification jobs that have changed. */
  jobs: 'examhall:ai-jobs',
  /** The setting of the model provider, and cancelled tasks by their cancellation keys. */
  models: 'examhall:ai-models',
  /** Accounts of which a session has ended, or which an operator has suspended or deleted. */
  accounts: 'examhall:accounts',
} as const;
export type Changing = keyof typeof CHANNELS;

/** Maximum number of ids in one message. A fan-out to 10,000 users is 20 messages of about 20 KB. */
const IDS_AT_ONCE = 500;

/** Publishes changes to the listeners of every process. A message may be lost, so listeners poll as well. */
export interface ChangePublisher {
  /** Publishes the ids that changed. Returns at once and never throws. */
  publish(ids: readonly string[]): void;
  close(): Promise<void>;
}

/** Publishes changes, and calls the listeners of this process for changes of every process. Changes may be lost: poll as well. */
export interface ChangeFeed {
  /** Publishes the ids that changed. Returns at once and never throws. */
  notify(ids: readonly string[]): void;
  /** Calls `changed` at each published change of this id. Returns the function that ends this. */
  listen(id: string, changed: () => void): () => void;
  /** Returns false while the subscription is down, so that changes of other processes are lost. */
  isConnected(): boolean;
  close(): Promise<void>;
}

export interface ChangeLink {
  redisUrl: string;
  log: LinkLog;
  of: Changing;
}

/** Opens the publishing end alone, for a process that makes changes and does not listen. */
export function openChangePublisher({ redisUrl, log, of }: ChangeLink): ChangePublisher {
  return publishTurns(
    openBroadcaster({ redisUrl, log, purpose: `publishing changes of ${of}`, channel: CHANNELS[of] }),
  );
}

/** Publishes one change by itself, for a program that ends then. Returns false if Redis did not confirm it in time. Never throws. */
export function publishChange({ redisUrl, of }: Omit<ChangeLink, 'log'>, id: string): Promise<boolean> {
  return publishOnce({ redisUrl, channel: CHANNELS[of], text: JSON.stringify([id]) });
}

/** Opens both ends: one connection to publish and one subscription that all listeners of the process share. */
export function openChangeFeed({ redisUrl, log, of }: ChangeLink): ChangeFeed {
  const listeners = new Map<string, Set<() => void>>();
  const channel = CHANNELS[of];
  const publisher = openChangePublisher({ redisUrl, log, of });
  const link = subscribeToBroadcasts({ redisUrl, log, purpose: `receiving changes of ${of}`, channel, receive });

  function receive(text: string): void {
    for (const id of idsOf(text)) callListeners(id);
  }
  function callListeners(id: string): void {
    for (const changed of listeners.get(id) ?? []) changed();
  }

  return {
    notify(ids) {
      // Listeners in this process are called at once, even if Redis is unreachable.
      if (listeners.size > 0) for (const id of new Set(ids)) callListeners(id);
      publisher.publish(ids);
    },
    listen(id, changed) {
      const others = listeners.get(id);
      if (others === undefined) listeners.set(id, new Set([changed]));
      else others.add(changed);
      return () => {
        const group = listeners.get(id);
        group?.delete(changed);
        if (group?.size === 0) listeners.delete(id);
      };
    },
    isConnected: () => link.current() !== null,
    async close() {
      await Promise.all([publisher.close(), link.close()]);
    },
  };
}

/** Publishes the changes of one turn together: when a class is graded, many inboxes change at the same moment. */
function publishTurns(broadcaster: Broadcaster): ChangePublisher {
  const waiting = new Set<string>();

  function publishWaiting(): void {
    const ids = [...waiting];
    waiting.clear();
    for (let from = 0; from < ids.length; from += IDS_AT_ONCE) {
      broadcaster.publish(JSON.stringify(ids.slice(from, from + IDS_AT_ONCE)));
    }
  }

  return {
    publish(ids) {
      if (waiting.size === 0 && ids.length > 0) setImmediate(publishWaiting);
      for (const id of ids) waiting.add(id);
    },
    close() {
      publishWaiting();
      return broadcaster.close();
    },
  };
}

/** Returns the ids of a message; an empty list for a message that is not a JSON array. */
function idsOf(text: string): string[] {
  try {
    const ids: unknown = JSON.parse(text);
    return Array.isArray(ids) ? ids.filter((id) => typeof id === 'string') : [];
  } catch {
    return [];
  }
}
