import type { Rejection } from '#shared/kernel/errors.ts';

/** How many streams one process holds open. */
export interface StreamPlaces {
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
