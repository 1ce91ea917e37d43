/** A known pair, a stranger, or a registration. Each has limits of its own, so that none fills the place of another. */
type LaneKind = 'known' | 'stranger' | 'registration';

/** Work that waits in one line. Lanes are served in turn, one piece each. */
export interface Lane {
  kind: LaneKind;
  /** The address of the caller; registrations share one lane. */
  name: string;
  /** The account that the work is for, whose places in the lane are limited; null: they are not. */
  account: string | null;
}

export const REGISTRATION: Lane = { kind: 'registration', name: '', account: null };

export interface FairQueueOptions {
  /** Pieces of work that run at once. */
  concurrency: number;
  /** Those of them that only known pairs may use. Default 0. */
  kept?: number;
  /** Pieces that wait in one lane, by its kind. Default WAITING. */
  waiting?: Partial<Readonly<Record<LaneKind, number>>>;
}

/**
 * Pieces that wait in one lane. A stranger's lane is short, because every stranger can fill the one of its address. Pupils of one
 * school who are known pairs arrive together and wait for each other.
 */
const WAITING: Readonly<Record<LaneKind, number>> = { known: 60, stranger: 6, registration: 60 };
/**
 * Pieces of one account that wait in a lane. Logins with the right password have no other limit, so that one pupil could otherwise fill
 * the lane of the whole school.
 */
const WAITING_OF_ACCOUNT = 6;
/** Lanes of one kind. A new lane waits for one piece of each other lane: about five seconds at the default cost. */
const MAX_LANES = 60;

/** Thrown if so many hashes are waiting that a further one would take too long. */
export class HasherBusy extends Error {
  constructor() {
    super('Too many hashes are waiting');
    this.name = 'HasherBusy';
  }
}

export type FairQueue = <T>(lane: Lane, work: () => Promise<T>) => Promise<T>;

/** Returns a queue that serves its lanes in turn. It rejects with HasherBusy at once if a lane or the account's share of it is full. */
export function fairQueue({ concurrency, kept = 0, waiting = {} }: FairQueueOptions): FairQueue {
  const limits = { ...WAITING, ...waiting };
  /** Lanes in which work waits, the next one first. A lane that was served moves to the end. */
  const lanes = new Map<string, { kind: LaneKind; waiting: { account: string | null; start: () => void }[] }>();
  const running = { known: 0, stranger: 0, registration: 0 };

  function mayStart(kind: LaneKind): boolean {
    const others = running.stranger + running.registration;
    return running.known + others < concurrency && (kind === 'known' || others < concurrency - kept);
  }

  function startNext(): void {
    for (const [key, lane] of lanes) {
      if (!mayStart(lane.kind)) continue;
      const first = lane.waiting.shift();
      lanes.delete(key);
      if (lane.waiting.length > 0) lanes.set(key, lane);
      first?.start();
      return;
    }
  }

  function enter({ kind, name, account }: Lane): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const start = () => {
      running[kind] += 1;
      resolve();
    };
    // If work of this kind may start, none of it waits.
    if (mayStart(kind)) {
      start();
      return promise;
    }
    const key = `${kind} ${name}`;
    const ofKind = [...lanes.values()].filter((lane) => lane.kind === kind).length;
    const lane = lanes.get(key) ?? { kind, waiting: [] };
    const isNew = lane.waiting.length === 0;
    const own = account === null ? 0 : lane.waiting.filter((other) => other.account === account).length;
    if (lane.waiting.length >= limits[kind] || own >= WAITING_OF_ACCOUNT || (isNew && ofKind >= MAX_LANES)) {
      return Promise.reject(new HasherBusy());
    }
    lane.waiting.push({ account, start });
    lanes.set(key, lane);
    return promise;
  }

  return async (lane, work) => {
    await enter(lane);
    try {
      return await work();
    } finally {
      running[lane.kind] -= 1;
      startNext();
    }
  };
}
