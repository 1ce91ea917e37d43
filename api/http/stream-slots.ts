import type { Rejection } from '#shared/kernel/errors.ts';
import { networkTree, type Path } from '#shared/kernel/network-tree.ts';

/** Limits the open streams of one process. */
export interface StreamSlots {
  /**
   * Acquires a slot for this caller. Returns the function that releases it, or a rejection if a limit is reached. `end` is called if the
   * stream loses its slot to a newer one.
   */
  acquire(holder: StreamHolder, end: () => void): (() => void) | Rejection;
  /** Returns the number of open streams. */
  open(): number;
}

interface StreamHolder {
  actorId: string;
  /** Networks of the caller's address, the widest first. */
  networks: readonly string[];
}

interface Slot {
  release(): void;
  end(): void;
}

/** `Retry-After` of a stream that was refused (s). */
const RETRY_AFTER_SECONDS = 15;

/**
 * Opens the slots of a process: at most `perActor` streams for one caller and `inAll` together. If all are in use, the fullest network loses
 * the oldest stream of its fullest actor, so that a thousand accounts of one network shut out no caller from elsewhere.
 */
export function openStreamSlots({ perActor, inAll }: { perActor: number; inAll: number }): StreamSlots {
  const ofActor = new Map<string, number>();
  /** Slots by network and, at the end of each path, by actor. */
  const tree = networkTree<Slot>();

  function add(path: Path, actorId: string, end: () => void): () => void {
    const slot = { release, end };
    tree.add(path, slot);
    ofActor.set(actorId, (ofActor.get(actorId) ?? 0) + 1);

    function release(): void {
      if (!tree.remove(path, slot)) return;
      const left = (ofActor.get(actorId) ?? 1) - 1;
      if (left === 0) ofActor.delete(actorId);
      else ofActor.set(actorId, left);
    }
    return release;
  }

  return {
    open: tree.size,
    acquire({ actorId, networks }, end) {
      if ((ofActor.get(actorId) ?? 0) >= perActor) {
        return {
          rejected: 'RATE_LIMITED',
          message: 'The caller has too many open streams; close one or retry later',
          retryAfter: RETRY_AFTER_SECONDS,
        };
      }
      const path = [...networks, `actor ${actorId}`];
      if (tree.size() >= inAll) {
        const [oldest] = tree.fullest(path, 'nearest') ?? [];
        if (oldest === undefined) {
          return {
            rejected: 'UNAVAILABLE',
            message: 'This process has too many open streams; retry later',
            retryAfter: RETRY_AFTER_SECONDS,
          };
        }
        oldest.release();
        oldest.end();
      }
      return add(path, actorId, end);
    },
  };
}
