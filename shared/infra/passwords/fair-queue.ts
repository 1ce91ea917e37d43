import { networksOf } from '#infra/net/ip-address.ts';
import { type LineLimits, networkLine, type Waiting } from '#shared/auth/network-line.ts';

/** The caller of a piece of work. */
export interface Lane<Kind extends string = string> {
  /** Each kind of work waits in a line of its own, so that none fills the place of another. */
  kind: Kind;
  /** The counted address of the caller. */
  address: string;
  /** The account that the work is for; null: none that is limited. */
  account: string | null;
}

export interface FairQueueOptions<Kind extends string> {
  /** Limits of the line of each kind. */
  lines: Readonly<Record<Kind, LineLimits>>;
  /** Returns true if work of the kind may start beside what is running. */
  mayStart(kind: Kind, running: Readonly<Record<Kind, number>>): boolean;
}

/**
 * Thrown if so much work is waiting that a further piece would take too long. Nothing was done, and
 * the caller may retry in a second.
 */
export class HasherBusy extends Error {
  constructor() {
    super('Too many hashes are waiting');
    this.name = 'HasherBusy';
  }
}

/**
 * The error that is thrown: one for all, because a flood must not cost a stack trace for each
 * refusal.
 */
export const HASHER_BUSY = new HasherBusy();

/** Work of each kind that runs and that waits. */
export type QueueLoad<Kind extends string> = Readonly<Record<Kind, { running: number; waiting: number }>>;

export interface FairQueue<Kind extends string> {
  /**
   * Runs the work in its turn. Rejects with HasherBusy if the line has no room for it, or if a
   * later caller displaces it.
   */
  run<T>(lane: Lane<Kind>, work: () => Promise<T>): Promise<T>;
  /** Returns true if work could enter the lane now. */
  hasRoom(lane: Lane<Kind>): boolean;
  /** Starts work that `mayStart` has begun to permit. */
  wake(): void;
  load(): QueueLoad<Kind>;
}

/** Work that waits for its turn. */
interface Piece extends Waiting {
  start(): void;
  refuse(): void;
}

/** Returns a queue that serves kinds in turn, and within a kind networks in turn. */
export function fairQueue<Kind extends string>(options: FairQueueOptions<Kind>): FairQueue<Kind> {
  /** The kind that comes next is the first. One that was served moves to the end. */
  const kinds = Object.keys(options.lines) as Kind[];
  const each = <T>(value: (kind: Kind) => T) =>
    Object.fromEntries(kinds.map((kind) => [kind, value(kind)])) as Record<Kind, T>;
  const lines = each((kind) => networkLine<Piece>(options.lines[kind]));
  const running = each(() => 0);
  const mayStart = (kind: Kind) => options.mayStart(kind, running);

  function startNext(): void {
    const place = kinds.findIndex((kind) => lines[kind].size() > 0 && mayStart(kind));
    const [kind] = place === -1 ? [] : kinds.splice(place, 1);
    if (kind === undefined) return;
    kinds.push(kind);
    lines[kind].shift()?.start();
  }

  function enter({ kind, address, account }: Lane<Kind>): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const start = () => {
      running[kind] += 1;
      resolve();
    };
    // If work of this kind may start, none of it waits.
    if (mayStart(kind)) start();
    else lines[kind].push({ ...waiting({ address, account }), start, refuse: () => reject(HASHER_BUSY) })?.refuse();
    return promise;
  }

  return {
    async run(lane, work) {
      await enter(lane);
      try {
        return await work();
      } finally {
        running[lane.kind] -= 1;
        startNext();
      }
    },
    hasRoom: (lane) => mayStart(lane.kind) || lines[lane.kind].hasRoom(waiting(lane)),
    wake: startNext,
    load: () => each((kind) => ({ running: running[kind], waiting: lines[kind].size() })),
  };
}

function waiting({ address, account }: Pick<Lane, 'address' | 'account'>): Waiting {
  return { networks: networksOf(address), account };
}
