import type { RawReply } from '#api/route.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { type EventStream, openEventStream } from './event-stream.ts';

/**
 * Sends the current state and each change. Returns once its subject has ended or the stream is no longer live. The alarm
 * rings at each change, and when the stream stops being live.
 */
type Follow = (stream: LiveStream, alarm: Alarm) => Promise<void>;

export interface LiveStream extends EventStream {
  /**
   * Returns false once the reply has ended or the stream has reached its maximum age. A loop checks it between two reads, so
   * that the stream ends after a whole event and its last id resumes it without a gap.
   */
  isLive(): boolean;
}

/** `over`: nothing more will come, and the reply is 204. */
export type Beginning = { kind: 'follow'; follow: Follow } | { kind: 'over' };

interface LiveSubject {
  streams: Streams;
  /** The actor whose stream limit the stream counts in. */
  holder: string;
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
  places: StreamPlaces;
  /** Aborted when the process begins to drain; all streams then end at once. */
  draining: AbortSignal;
  /** Age at which a stream ends (ms). Its client reconnects, and its right to read is checked again. */
  maxAgeMs: number;
}

/** Limit of open streams per actor. A browser opens six connections to a host, and one must stay free for requests. */
const STREAMS_PER_ACTOR = 5;
/** Limit of open streams of all actors. */
const STREAMS_IN_ALL = 5_000;
const MAX_AGE_MS = 10 * MINUTE;

/** Returns the shared stream state of this process; no stream is open yet. */
export function openStreams(draining: AbortSignal): Streams {
  const places = openStreamPlaces({ perActor: STREAMS_PER_ACTOR, inAll: STREAMS_IN_ALL });
  return { places, draining, maxAgeMs: MAX_AGE_MS };
}

const HEARTBEAT_MS = 15 * SECOND;

/** Takes a place, reads the initial state and then streams. However the stream ends, its place is released. */
export async function liveStream(subject: LiveSubject): Promise<RawReply | Rejection> {
  const { streams, now, maxUnreadBytes } = subject;
  const place = streams.places.take(subject.holder);
  if (isRejection(place)) return place;
  const alarm = openAlarm();
  // Listen before the initial read, so that no change during the read is missed.
  const unlisten = subject.listen(alarm.ring);
  const leave = () => {
    unlisten();
    place();
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
          void stream.ended.then(alarm.ring);
          await first.follow(withAge(stream, streams.maxAgeMs, alarm), alarm);
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

/** Returns the stream with a maximum age: after `maxAgeMs` it stops being live and the alarm rings. */
function withAge(stream: EventStream, maxAgeMs: number, alarm: Alarm): LiveStream {
  let isOfAge = false;
  const timer = setTimeout(() => {
    isOfAge = true;
    alarm.ring();
  }, maxAgeMs);
  void stream.ended.then(() => clearTimeout(timer));
  return { ...stream, isLive: () => !isOfAge && stream.isOpen() };
}

/** Wakes the loop of a stream at a change, at its end or at its maximum age. A ring between two waits ends the next wait. */
export interface Alarm {
  ring: () => void;
  /** Resolves with true at the next ring, or with false after `ms`. */
  wait(ms: number): Promise<boolean>;
  /** Resolves after `ms`, however often the alarm rings meanwhile. */
  pause(ms: number): Promise<void>;
}

function openAlarm(): Alarm {
  let rung = false;
  let wake: (() => void) | null = null;
  return {
    ring() {
      rung = true;
      wake?.();
    },
    async wait(ms) {
      if (!rung) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        wake = null;
      }
      const wasRung = rung;
      rung = false;
      return wasRung;
    },
    pause: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  };
}

/** Limits the open streams of one process. */
interface StreamPlaces {
  /** Takes a place for this caller. Returns the function that releases it, or a rejection if a limit is reached. */
  take(actorId: string): (() => void) | Rejection;
}

/** `Retry-After` of a stream that was refused (s). */
const COME_AGAIN_SECONDS = 15;

export function openStreamPlaces({ perActor, inAll }: { perActor: number; inAll: number }): StreamPlaces {
  const open = new Map<string, number>();
  let all = 0;
  return {
    take(actorId) {
      const own = open.get(actorId) ?? 0;
      if (own >= perActor) {
        return {
          rejected: 'RATE_LIMITED',
          message: 'The caller has too many open streams; close one or retry later',
          retryAfter: COME_AGAIN_SECONDS,
        };
      }
      if (all >= inAll) {
        return {
          rejected: 'UNAVAILABLE',
          message: 'This process has too many open streams; retry later',
          retryAfter: COME_AGAIN_SECONDS,
        };
      }
      open.set(actorId, own + 1);
      all += 1;
      let given = false;
      return () => {
        if (given) return;
        given = true;
        all -= 1;
        const left = (open.get(actorId) ?? 1) - 1;
        if (left === 0) open.delete(actorId);
        else open.set(actorId, left);
      };
    },
  };
}
