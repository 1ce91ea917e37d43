import { setTimeout as delay } from 'node:timers/promises';

/** A known pair, a stranger, or a registration. Each has limits of its own, so that none fills the place of another. */
export const LANE_KINDS = ['known', 'stranger', 'registration'] as const;
type LaneKind = (typeof LANE_KINDS)[number];

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
  /** Resolves after `ms`; for tests. */
  pause?: (ms: number) => Promise<unknown>;
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

/** The error that is thrown: one for all, because a flood must not cost a stack trace for each refusal. */
export const HASHER_BUSY = new HasherBusy();

/** Work of each kind that runs and that waits. */
export type QueueLoad = Readonly<Record<LaneKind, { running: number; waiting: number }>>;

export interface FairQueue {
  /**
   * Runs the work in its turn. Rejects with HasherBusy at once if the lane or the account's share of it is full.
   *
   * After work of a stranger whose result `isWrong`, no stranger uses the slot for as long as that work took. Guesses of strangers thus
   * use at most half of a slot's processor time. Known pairs and registrations may use it meanwhile.
   */
  run<T>(lane: Lane, work: () => Promise<T>, isWrong?: (result: T) => boolean): Promise<T>;
  /** Returns true if work could enter the lane now. */
  hasRoom(lane: Lane): boolean;
  load(): QueueLoad;
}

/** Returns a queue that serves its lanes in turn. */
export function fairQueue(options: FairQueueOptions): FairQueue {
  const { concurrency, kept = 0, waiting = {}, pause = unreferencedPause } = options;
  const limits = { ...WAITING, ...waiting };
  /** Lanes in which work waits, the next one first. A lane that was served moves to the end. */
  const lanes = new Map<string, { kind: LaneKind; waiting: { account: string | null; start: () => void }[] }>();
  const running = { known: 0, stranger: 0, registration: 0 };
  /** Slots that are closed to strangers. */
  let closed = 0;

  function mayStart(kind: LaneKind): boolean {
    const others = running.stranger + running.registration;
    if (running.known + others >= concurrency) return false;
    if (kind === 'known') return true;
    return others + (kind === 'stranger' ? closed : 0) < concurrency - kept;
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

  function hasRoom({ kind, name, account }: Lane): boolean {
    if (mayStart(kind)) return true;
    const lane = lanes.get(`${kind} ${name}`);
    if (lane === undefined) {
      const ofKind = [...lanes.values()].filter((other) => other.kind === kind).length;
      return limits[kind] > 0 && ofKind < MAX_LANES;
    }
    const own = account === null ? 0 : lane.waiting.filter((other) => other.account === account).length;
    return lane.waiting.length < limits[kind] && own < WAITING_OF_ACCOUNT;
  }

  function enter(to: Lane): Promise<void> {
    const { kind, name, account } = to;
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
    if (!hasRoom(to)) return Promise.reject(HASHER_BUSY);
    const key = `${kind} ${name}`;
    const lane = lanes.get(key) ?? { kind, waiting: [] };
    lane.waiting.push({ account, start });
    lanes.set(key, lane);
    return promise;
  }

  async function closeToStrangers(ms: number): Promise<void> {
    closed += 1;
    await pause(ms);
    closed -= 1;
    startNext();
  }

  async function run<T>(lane: Lane, work: () => Promise<T>, isWrong?: (result: T) => boolean): Promise<T> {
    await enter(lane);
    const from = performance.now();
    try {
      const result = await work();
      if (lane.kind === 'stranger' && isWrong?.(result) === true) void closeToStrangers(performance.now() - from);
      return result;
    } finally {
      running[lane.kind] -= 1;
      startNext();
    }
  }

  function load(): QueueLoad {
    const of = (kind: LaneKind) => ({ running: running[kind], waiting: 0 });
    const all = { known: of('known'), stranger: of('stranger'), registration: of('registration') };
    for (const { kind, waiting } of lanes.values()) all[kind].waiting += waiting.length;
    return all;
  }

  return { run, hasRoom, load };
}

/** Resolves after `ms`, and does not keep the process alive until then. */
function unreferencedPause(ms: number): Promise<unknown> {
  return delay(ms, undefined, { ref: false });
}
