import type { RawReply } from '#api/route.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { type EventStream, openEventStream } from './event-stream.ts';
import { type Alarm, openAlarm } from './stream-alarm.ts';
import type { StreamPlaces } from './stream-places.ts';

/** Tells what there is and what changes, until its stream or its subject has ended. The alarm rings at each change, and at the stream's end. */
export type Follow = (stream: EventStream, alarm: Alarm) => Promise<void>;

export interface LiveSubject {
  streams: {
    places: StreamPlaces;
    /** Aborted when the process begins to drain. */
    draining: AbortSignal;
  };
  /** Whose place it takes. */
  holder: string;
  /** Calls `changed` whenever there may be something to tell; the function that comes back ends that. */
  listen(changed: () => void): () => void;
  /** The first look, while a failure still has a status. null: there is nothing more to come, 204. */
  begin(): Promise<Follow | null>;
  /** MongoDB's time. */
  now(): number;
  maxUnreadBytes?: number;
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
    const follow = await subject.begin();
    return {
      async raw(response) {
        try {
          if (follow === null) {
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
          await follow(stream, alarm);
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
