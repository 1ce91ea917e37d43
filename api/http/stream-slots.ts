import type { Rejection } from '#shared/kernel/errors.ts';

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

/** The open streams of a network, of a part of it or, at the end of each branch, of an actor there. */
interface Branch {
  count: number;
  below: Map<string, Branch>;
  /** Slots of the actor, the oldest first; empty above. */
  slots: Set<Slot>;
}

/** `Retry-After` of a stream that was refused (s). */
const RETRY_AFTER_SECONDS = 15;

/**
 * Opens the slots of a process: at most `perActor` streams for one caller and `inAll` together. If all are in use, the fullest network loses
 * the oldest stream of its fullest actor, so that a thousand accounts of one network shut out no caller from elsewhere.
 */
export function openStreamSlots({ perActor, inAll }: { perActor: number; inAll: number }): StreamSlots {
  const ofActor = new Map<string, number>();
  const root = newBranch();

  function add(path: readonly string[], actorId: string, end: () => void): () => void {
    const branches = openPath(root, path);
    let isHeld = true;
    const slot = { release, end };
    for (const branch of branches) branch.count += 1;
    branches.at(-1)?.slots.add(slot);
    ofActor.set(actorId, (ofActor.get(actorId) ?? 0) + 1);

    function release(): void {
      if (!isHeld) return;
      isHeld = false;
      branches.at(-1)?.slots.delete(slot);
      for (const branch of branches) branch.count -= 1;
      closePath(root, path);
      const left = (ofActor.get(actorId) ?? 1) - 1;
      if (left === 0) ofActor.delete(actorId);
      else ofActor.set(actorId, left);
    }
    return release;
  }

  return {
    open: () => root.count,
    acquire({ actorId, networks }, end) {
      if ((ofActor.get(actorId) ?? 0) >= perActor) {
        return {
          rejected: 'RATE_LIMITED',
          message: 'The caller has too many open streams; close one or retry later',
          retryAfter: RETRY_AFTER_SECONDS,
        };
      }
      const path = [...networks, `actor ${actorId}`];
      if (root.count >= inAll) {
        const yielding = yieldingTo(root, path);
        if (yielding === undefined) {
          return {
            rejected: 'UNAVAILABLE',
            message: 'This process has too many open streams; retry later',
            retryAfter: RETRY_AFTER_SECONDS,
          };
        }
        yielding.release();
        yielding.end();
      }
      return add(path, actorId, end);
    },
  };
}

function newBranch(): Branch {
  return { count: 0, below: new Map(), slots: new Set() };
}

/** Returns the branches from the root to the end of the path, and adds those that are missing. */
function openPath(root: Branch, path: readonly string[]): Branch[] {
  const branches = [root];
  let branch = root;
  for (const name of path) {
    const next = branch.below.get(name) ?? newBranch();
    branch.below.set(name, next);
    branches.push(next);
    branch = next;
  }
  return branches;
}

/** Removes the first branch of the path that is empty. */
function closePath(root: Branch, path: readonly string[]): void {
  let branch: Branch | undefined = root;
  for (const name of path) {
    const next: Branch | undefined = branch?.below.get(name);
    if (next?.count === 0) {
      branch?.below.delete(name);
      return;
    }
    branch = next;
  }
}

/**
 * Returns the stream that makes room for a newcomer, or undefined. At each level the fullest branch loses one, if it then still has at least
 * as many as the branch of the newcomer. Otherwise the two would take the slot from each other again and again.
 */
function yieldingTo(root: Branch, path: readonly string[]): Slot | undefined {
  let branch = root;
  for (const name of path) {
    const fullest = fullestBelow(branch);
    const own = branch.below.get(name);
    if (fullest !== undefined && fullest.count >= (own?.count ?? 0) + 2) return oldestOf(fullest);
    if (own === undefined) return undefined;
    branch = own;
  }
  return undefined;
}

function oldestOf(branch: Branch): Slot | undefined {
  const fullest = fullestBelow(branch);
  if (fullest !== undefined) return oldestOf(fullest);
  const [oldest] = branch.slots;
  return oldest;
}

function fullestBelow({ below }: Branch): Branch | undefined {
  let fullest: Branch | undefined;
  for (const branch of below.values()) if (branch.count > (fullest?.count ?? 0)) fullest = branch;
  return fullest;
}
