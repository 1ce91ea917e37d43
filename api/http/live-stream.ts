import type { Call, RawReply } from '#api/route.ts';
import { networksOf } from '#infra/net/ip-address.ts';
import type { ChangeFeed } from '#infra/redis/change-feed.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { openCountedAddress } from './caller-address.ts';
import { type EventStream, openEventStream } from './event-stream.ts';
import { openStreamSlots, type StreamSlots } from './stream-slots.ts';

/**
 * Sends the current state and each change. Returns once its subject has ended or the stream is no longer live. The wake
 * signal fires at each change, and when the stream stops being live.
 */
type Follow = (stream: LiveStream, wakeSignal: WakeSignal) => Promise<void>;

export interface LiveStream extends EventStream {
  /**
   * Returns false once the reply has ended, the stream has reached its maximum age or lost its slot, or its actor may have lost the session.
   * A loop checks it between two reads, so that the stream ends after a whole event and its last id resumes it without a gap.
   */
  isLive(): boolean;
}

/** `over`: nothing more will come, and the reply is 204. */
export type Beginning = { kind: 'follow'; follow: Follow } | { kind: 'over' };

interface LiveSubject {
  streams: Streams;
  /** The actor whose stream limit the stream counts in. */
  holder: string;
  call: Pick<Call, 'peer' | 'headers'>;
  /** Calls `changed` whenever there may be something to send. Returns a function that stops this. */
  listen(changed: () => void): () => void;
  /** Reads the initial state before headers are sent, so that a failure can still set the status. */
  begin(): Promise<Beginning>;
  /** Returns MongoDB's time (ms since the epoch). */
  now(): number;
  maxUnreadBytes?: number;
}

/** State that the live streams of one process share, across all services that it serves. */
export interface Streams {
  slots: StreamSlots;
  /** Returns the networks of the caller's address, the widest first. */
  networksOf(call: LiveSubject['call']): readonly string[];
  /** Aborted when the process begins to drain; all streams then end at once. */
  draining: AbortSignal;
  /** Calls a listener when a session of this account has ended, or the account may no longer sign in. The call may be lost. */
  accountEnds: Pick<ChangeFeed, 'listen'>;
  /** Age at which a stream ends (ms). Its client reconnects, and its right to read is checked again. */
  maxAgeMs: number;
}

/** Limit of open streams per actor. A browser opens six connections to a host, and one must stay free for requests. */
const STREAMS_PER_ACTOR = 5;
/** Limit of open streams of all actors. */
const STREAMS_IN_ALL = 5_000;
const MAX_AGE_MS = 10 * MINUTE;

/** Account ends that never come. */
const NO_ENDS: Streams['accountEnds'] = { listen: () => () => undefined };

/**
 * Returns the shared stream state of this process; no stream is open yet. Without `accountEnds`, no end of a session ends a stream.
 * `trustedProxies`: addresses and networks of the proxies before this process.
 */
export function openStreams(
  draining: AbortSignal,
  accountEnds = NO_ENDS,
  trustedProxies: readonly string[] = [],
): Streams {
  const addressOf = openCountedAddress(trustedProxies);
  return {
    slots: openStreamSlots({ perActor: STREAMS_PER_ACTOR, inAll: STREAMS_IN_ALL }),
    networksOf: (call) => networksOf(addressOf(call)),
    draining,
    accountEnds,
    maxAgeMs: MAX_AGE_MS,
  };
}

const HEARTBEAT_MS = 15 * SECOND;

/** Acquires a slot, reads the initial state and then streams. However the stream ends, its slot is released. */
export async function liveStream(subject: LiveSubject): Promise<RawReply | Rejection> {
  const { streams, now, holder: actorId, maxUnreadBytes } = subject;
  const wakeSignal = openWakeSignal();
  let isOver = false;
  const end = () => {
    isOver = true;
    wakeSignal.wake();
  };
  const releaseSlot = streams.slots.acquire({ actorId, networks: streams.networksOf(subject.call) }, end);
  if (isRejection(releaseSlot)) return releaseSlot;
  // Listen before the initial read, so that no change during the read is missed.
  const unlisten = subject.listen(wakeSignal.wake);
  // A stream does not know its session, so all streams of the actor end; those of other sessions reconnect, and the gateway refuses the
  // ended one.
  const unwatch = streams.accountEnds.listen(actorId, end);
  const leave = () => {
    unlisten();
    unwatch();
    releaseSlot();
  };
  try {
    const first = await subject.begin();
    return {
      kind: 'raw',
      async raw(response) {
        try {
          if (first.kind === 'over') {
            response.writeHead(204);
            response.end();
            return;
          }
          const stream = openEventStream(response, {
            draining: streams.draining,
            heartbeatMs: HEARTBEAT_MS,
            ...(maxUnreadBytes === undefined ? {} : { maxUnreadBytes }),
            heartbeat: () => ({ event: 'heartbeat', data: { at: new Date(now()).toISOString() } }),
          });
          void stream.ended.then(wakeSignal.wake);
          const aged = withAge(stream, streams.maxAgeMs, wakeSignal);
          await first.follow({ ...aged, isLive: () => !isOver && aged.isLive() }, wakeSignal);
          stream.end();
        } finally {
          leave();
        }
      },
    };
  } catch (error) {
    leave();
    throw error;
  }
}

/** Returns the stream with a maximum age: after `maxAgeMs` it stops being live and its loop is woken. */
function withAge(stream: EventStream, maxAgeMs: number, wakeSignal: WakeSignal): LiveStream {
  let isOfAge = false;
  const timer = setTimeout(() => {
    isOfAge = true;
    wakeSignal.wake();
  }, maxAgeMs);
  void stream.ended.then(() => clearTimeout(timer));
  return { ...stream, isLive: () => !isOfAge && stream.isOpen() };
}

/** Wakes the loop of a stream at a change, at its end or at its maximum age. A wake between two waits ends the next wait. */
export interface WakeSignal {
  wake: () => void;
  /** Resolves with true at the next wake, or with false after `ms`. */
  wait(ms: number): Promise<boolean>;
  /** Resolves after `ms`, however often `wake` is called meanwhile. */
  pause(ms: number): Promise<void>;
}

function openWakeSignal(): WakeSignal {
  let woken = false;
  let finish: (() => void) | null = null;
  return {
    wake() {
      woken = true;
      finish?.();
    },
    async wait(ms) {
      if (!woken) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          finish = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        finish = null;
      }
      const wasWoken = woken;
      woken = false;
      return wasWoken;
    },
    pause: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  };
}
