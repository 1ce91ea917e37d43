import type { RawReply } from '#api/route.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { type EventStream, openEventStream } from './event-stream.ts';

/** Tells what there is and what changes, until its stream or its subject has ended. The alarm rings at each change, and at the stream's end. */
type Follow = (stream: EventStream, alarm: Alarm) => Promise<void>;

/** `over`: there is nothing more to come, 204. */
export type Beginning = { kind: 'follow'; follow: Follow } | { kind: 'over' };

interface LiveSubject {
  streams: Streams;
  /** Whose place it takes. */
  holder: string;
  /** Calls `changed` whenever there may be something to tell; the function that comes back ends that. */
  listen(changed: () => void): () => void;
  /** The first look, while a failure still has a status. */
  begin(): Promise<Beginning>;
  /** MongoDB's time. */
  now(): number;
  maxUnreadBytes?: number;
}

/** The live streams of a service in one process. */
export interface Streams {
  places: StreamPlaces;
  /** Aborted when the process begins to drain: streams end first. */
  draining: AbortSignal;
}

const HEARTBEAT_MS = 15 * SECOND;

/** A place among the streams, a first look and then the stream; whatever ends it gives the place back. */
export async function liveStream(subject: LiveSubject): Promise<RawReply | Rejection> {
  const { streams, now, maxUnreadBytes } = subject;
  const place = streams.places.take(subject.holder);
  if (isRejection(place)) return place;
  const alarm = openAlarm();
  // Before the first look: what changes during it must not be missed.
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
          await first.follow(stream, alarm);
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

/** Wakes the loop of a stream: rung by changes, by its end, or by time. A ring that nobody waits for is kept for the next wait. */
export interface Alarm {
  ring: () => void;
  /** Resolves with true at the next ring, with false after so long (ms). */
  wait(ms: number): Promise<boolean>;
  /** Resolves after so long, however often it rings meanwhile (ms). */
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

/** How many streams one process holds open. */
interface StreamPlaces {
  /** A place for this caller; the function gives it back, once. */
  take(actorId: string): (() => void) | Rejection;
}

/** When somebody who was turned away may come again (s). */
const COME_AGAIN_SECONDS = 15;

export function openStreamPlaces({ perActor, inAll }: { perActor: number; inAll: number }): StreamPlaces {
  const open = new Map<string, number>();
  let all = 0;
  return {
    take(actorId) {
      const own = open.get(actorId) ?? 0;
      if (own >= perActor) {
        return { rejected: 'RATE_LIMITED', message: 'Too many streams are open', retryAfter: COME_AGAIN_SECONDS };
      }
      if (all >= inAll) {
        return { rejected: 'UNAVAILABLE', message: 'No stream is free now', retryAfter: COME_AGAIN_SECONDS };
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
