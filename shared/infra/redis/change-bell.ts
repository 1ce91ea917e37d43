import { type Broadcaster, hearBroadcasts, openBroadcaster } from './broadcast.ts';
import type { Log } from './link.ts';

/** What changes, and the channel that says so; each message is a JSON array of ids. */
const CHANNELS = {
  /** Users whose inbox has changed. */
  inboxes: 'examhall:inbox',
  /** Classification jobs that have changed. */
  jobs: 'examhall:ai-jobs',
  /** The setting of the model provider. */
  providers: 'examhall:ai-provider-settings',
} as const;
export type Changing = keyof typeof CHANNELS;

/** Ids in one message: a fan-out of ten thousand is twenty messages of some 20 KB. */
const IDS_AT_ONCE = 500;

/** Says what has changed to those who look at it, in whatever process. It may be lost: lookers poll as well. */
export interface ChangeTeller {
  /** Returns at once, never throws. */
  tell(ids: readonly string[]): void;
  close(): Promise<void>;
}

/** Wakes whoever looks at a thing that has changed, in whatever process. A wake may be lost: lookers poll as well. */
export interface ChangeBell {
  /** Returns at once, never throws. */
  wake(ids: readonly string[]): void;
  /** Calls `changed` at each wake of this id; the function that comes back ends that. */
  listen(id: string, changed: () => void): () => void;
  /** False while wakes of other processes cannot arrive. */
  canHear(): boolean;
  close(): Promise<void>;
}

export interface ChangeLink {
  redisUrl: string;
  log: Log;
  of: Changing;
}

/** For a process that changes and does not look. */
export function openChangeTeller({ redisUrl, log, of }: ChangeLink): ChangeTeller {
  const broadcaster = openBroadcaster({ redisUrl, log, purpose: `telling of ${of}`, channel: CHANNELS[of] });
  return {
    tell: (ids) => say(broadcaster, [...new Set(ids)]),
    close: () => broadcaster.close(),
  };
}

export function openChangeBell({ redisUrl, log, of }: ChangeLink): ChangeBell {
  const listeners = new Map<string, Set<() => void>>();
  const channel = CHANNELS[of];
  const broadcaster = openBroadcaster({ redisUrl, log, purpose: `waking ${of}`, channel });
  const link = hearBroadcasts({ redisUrl, log, purpose: `hearing of ${of}`, channel, hear });

  function hear(text: string): void {
    for (const id of idsOf(text)) callListeners(id);
  }
  function callListeners(id: string): void {
    for (const changed of listeners.get(id) ?? []) changed();
  }

  return {
    wake(given) {
      const ids = [...new Set(given)];
      // Those in this process hear of it at once, with Redis or without.
      if (listeners.size > 0) for (const id of ids) callListeners(id);
      say(broadcaster, ids);
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
    canHear: () => link.current() !== null,
    async close() {
      await Promise.all([broadcaster.close(), link.close()]);
    },
  };
}

function say(broadcaster: Broadcaster, ids: readonly string[]): void {
  for (let from = 0; from < ids.length; from += IDS_AT_ONCE) {
    broadcaster.say(JSON.stringify(ids.slice(from, from + IDS_AT_ONCE)));
  }
}

/** Whatever else somebody says on the channel wakes nobody. */
function idsOf(text: string): string[] {
  try {
    const ids: unknown = JSON.parse(text);
    return Array.isArray(ids) ? ids.filter((id) => typeof id === 'string') : [];
  } catch {
    return [];
  }
}
