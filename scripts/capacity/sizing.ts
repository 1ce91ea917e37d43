import type { Costs, Operation } from './costs.ts';

/** An exam that all students sit at the same time. */
export interface Load {
  students: number;
  /** Saves of one student in a minute. */
  savesPerMinute: number;
  /** Time within which all students start, and within which all submit (s). */
  startSeconds: number;
  submitSeconds: number;
  /** Time within which the notices of all grades are announced (s). */
  noticeSeconds: number;
  /** Attempts of one student in a term. */
  attemptsPerTerm: number;
  /** Shards of MongoDB; 1 is a replica set. */
  shards: number;
}

export const USUAL_LOAD: Omit<Load, 'students' | 'shards'> = {
  savesPerMinute: 2,
  startSeconds: 300,
  submitSeconds: 120,
  noticeSeconds: 600,
  attemptsPerTerm: 20,
};

/** Assumptions that nothing here has measured. */
export const ASSUMED = {
  /** Part of a core that a process uses at the peak, so that it absorbs bursts. */
  used: 0.6,
  /** Commands a second of one shard's primary, on eight cores and a fast disk. */
  commandsOfShard: 10_000,
  /** Kilobytes on disk of an attempt with its commands, notices and inbox rows, indexes included. */
  attemptKiB: 24,
  /** Commands of Redis for a ring and its reply. */
  redisOfRing: 8,
  /** Polls of a worker process in a second; one with several queues sends one for each. */
  pollsOfWorker: 1,
  /** Connections of one process at the peak; the pool holds at most 50. */
  connectionsOfProcess: 20,
} as const;

/** Rates of a phase, by operation, per second. */
type Rates = Partial<Readonly<Record<Operation, number>>>;

export interface Sizing {
  phases: readonly { name: string; rates: Rates; doors: number; commands: number }[];
  processes: { web: number; grading: number; gradenotices: number; others: number };
  /** Commands a second of the busiest phase on one shard. */
  commandsOfShard: number;
  /** Part of these that are polls, which every shard receives. */
  pollsOfShard: number;
  /** Least number of shards for this load. */
  shardsNeeded: number;
  redisCommands: number;
  connections: number;
  /** Gigabytes on disk that a term adds, on each member of a shard. */
  diskGiB: number;
}

/** One process of each type that the load does not scale: handoffs, releases, account notices, delivery, models, payment, sweeps. */
const OTHERS = 7;
const MS = 1_000;

/** Returns the processes and the load of MongoDB for an exam. */
export function sizeOf(load: Load, costs: Costs): Sizing {
  const { students, shards } = load;
  const saves = (students * load.savesPerMinute) / 60;
  const submits = students / load.submitSeconds;
  // One notice for the student, one for a parent.
  const notices = (2 * students) / load.noticeSeconds;
  const phases = [
    phase('all start', { start: students / load.startSeconds }, costs),
    phase('all save', { save: saves }, costs),
    phase('all submit', { save: saves / 2, submit: submits, read: submits }, costs),
    phase('all notices', { notice: notices, inbox: notices, read: notices }, costs),
  ];
  const web = Math.max(2, ...phases.map(({ doors }) => doors));
  const grading = processesFor(submits * costs.submit.workerMs);
  const gradenotices = processesFor(notices * costs.notice.workerMs);
  const workers = grading + gradenotices + OTHERS;
  const polls = workers * ASSUMED.pollsOfWorker;
  const peak = Math.max(...phases.map(({ commands }) => commands));
  return {
    phases,
    processes: { web, grading, gradenotices, others: OTHERS },
    commandsOfShard: Math.ceil(peak / shards + polls),
    pollsOfShard: polls,
    shardsNeeded: Math.max(1, Math.ceil(peak / Math.max(1, ASSUMED.commandsOfShard - polls))),
    redisCommands: Math.ceil((submits + notices) * ASSUMED.redisOfRing),
    connections: (web + workers) * ASSUMED.connectionsOfProcess,
    diskGiB: (students * load.attemptsPerTerm * ASSUMED.attemptKiB) / 1_024 ** 2 / shards,
  };
}

function phase(name: string, rates: Rates, costs: Costs): Sizing['phases'][number] {
  const sum = (of: 'doorMs' | 'commands') =>
    Object.entries(rates).reduce((total, [operation, rate]) => total + rate * costs[operation as Operation][of], 0);
  return { name, rates, doors: processesFor(sum('doorMs')), commands: Math.ceil(sum('commands')) };
}

/** Returns the processes that provide so many milliseconds of processor time in a second. */
function processesFor(msOfSecond: number): number {
  return Math.max(1, Math.ceil(msOfSecond / (MS * ASSUMED.used)));
}
