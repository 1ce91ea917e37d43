import type { Costs, Operation } from './costs.ts';

/** An exam that all students sit at the same time. */
export interface Load {
  students: number;
  /** Saves of one student in a minute. */
  savesPerMinute: number;
  /** Times within which all students sign in, start and submit (s). */
  signInSeconds: number;
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
  signInSeconds: 3_600,
  startSeconds: 300,
  submitSeconds: 120,
  noticeSeconds: 600,
  attemptsPerTerm: 20,
};

export const ASSUMED = {
  /** Part of a core that a process uses at the peak, so that it absorbs bursts. */
  used: 0.6,
  /** Commands a second of one shard's primary, on eight cores and a fast disk. */
  commandsOfShard: 10_000,
  /** Kilobytes on disk of an attempt with its commands, notices and inbox rows, indexes included. */
  attemptKiB: 24,
  /** Commands of Redis for a ring and its reply. */
  redisOfRing: 8,
  /** Seconds between two refreshes of a session, which is the life of an access token. */
  refreshSeconds: 900,
  /** Connections of one process at the peak; the pool holds at most 50. */
  connectionsOfProcess: 20,
} as const;

/** Rates of a phase, by operation, per second. */
type Rates = Partial<Readonly<Record<Operation, number>>>;

export type Sizing = ReturnType<typeof sizeOf>;

/** One process of each type that the load does not scale: handoffs, releases, account notices, delivery, models, payment, sweeps. */
const OTHERS = { processes: 7, queues: 8 } as const;
/** Queues of a process. On one shard each is polled once a second, on several the process polls them all by one statement. */
const QUEUES = { grading: 1, gradenotices: 2 } as const;
/**
 * Commands that shards send each other so that a transaction over several of them commits in two phases: one to coordinate, two for each
 * shard. A submit has two such transactions, of two and four shards, and a notice one of two.
 */
const TWO_PHASE: Rates = { submit: 14, notice: 5 };
/** Commands to collections that stay on the first shard: accounts, and the events of notifications. */
const FIRST_SHARD: Rates = { login: 2, refresh: 1, notice: 3 };
const MS = 1_000;

/** Returns the processes and the load of MongoDB for an exam. */
export function sizeOf(load: Load, costs: Costs) {
  const { students, shards } = load;
  const saves = (students * load.savesPerMinute) / 60;
  const submits = students / load.submitSeconds;
  // One notice for the student, one for a parent.
  const notices = (2 * students) / load.noticeSeconds;
  const refresh = students / ASSUMED.refreshSeconds;
  const phases = [
    phase('all sign in', { login: students / load.signInSeconds }, costs),
    phase('all start', { start: students / load.startSeconds, refresh }, costs),
    phase('all save', { save: saves, refresh }, costs),
    phase('all submit', { save: saves / 2, submit: submits, read: submits, refresh }, costs),
    phase('all notices', { notice: notices, inbox: notices, read: notices }, costs),
  ];
  const web = Math.max(2, ...phases.map(({ doors }) => doors));
  const grading = processesFor(submits * costs.submit.workerMs);
  const gradenotices = processesFor(notices * costs.notice.workerMs);
  const workers = grading + gradenotices + OTHERS.processes;
  const perQueue = grading * QUEUES.grading + gradenotices * QUEUES.gradenotices + OTHERS.queues;
  const pollsOf = (count: number) => (count === 1 ? perQueue : workers);
  const onFirstOf = (count: number) =>
    Math.max(
      ...phases.map(
        ({ commands, twoPhase, first }) =>
          (count === 1 ? commands : first + (commands - first + twoPhase) / count) + pollsOf(count),
      ),
    );
  return {
    phases,
    processes: { web, grading, gradenotices, others: OTHERS.processes },
    /** Commands a second of the busiest phase on the first shard, which has more than the others. */
    commandsOfShard: Math.ceil(onFirstOf(shards)),
    /** Part of these that are polls, which every shard receives. */
    pollsOfShard: pollsOf(shards),
    /** Least number of shards for this load; null if the first shard cannot carry its part. */
    shardsNeeded: leastShards(onFirstOf),
    redisCommands: Math.ceil((submits + notices) * ASSUMED.redisOfRing),
    connections: (web + workers) * ASSUMED.connectionsOfProcess,
    /** Gigabytes on disk that a term adds, on each member of a shard. */
    diskGiB: (students * load.attemptsPerTerm * ASSUMED.attemptKiB) / 1_024 ** 2 / shards,
  };
}

function phase(name: string, rates: Rates, costs: Costs) {
  const sum = (of: (operation: Operation) => number) =>
    Object.entries(rates).reduce((total, [operation, rate]) => total + rate * of(operation as Operation), 0);
  return {
    name,
    rates,
    doors: processesFor(sum((operation) => costs[operation].doorMs)),
    commands: Math.ceil(sum((operation) => costs[operation].commands)),
    twoPhase: Math.ceil(sum((operation) => TWO_PHASE[operation] ?? 0)),
    first: Math.ceil(sum((operation) => FIRST_SHARD[operation] ?? 0)),
  };
}

/** Returns the least number of shards with which the first one carries its part; null if no number suffices. */
function leastShards(onFirstOf: (shards: number) => number): number | null {
  for (let shards = 1; shards <= 1_000; shards++) if (onFirstOf(shards) <= ASSUMED.commandsOfShard) return shards;
  return null;
}

/** Returns the processes that provide so many milliseconds of processor time in a second. */
function processesFor(msOfSecond: number): number {
  return Math.max(1, Math.ceil(msOfSecond / (MS * ASSUMED.used)));
}

export function sizingText(load: Load, sizing: Sizing): string {
  const { processes } = sizing;
  const phases = sizing.phases.map(({ name, rates, doors, commands }) => {
    const each = Object.entries(rates).map(([operation, rate]) => `${round(rate)} ${operation}`);
    return `  ${name.padEnd(14)} ${each.join(', ')} a second: ${doors} web, ${round(commands)} MongoDB commands a second`;
  });
  return [
    `${round(load.students)} students at once, ${load.savesPerMinute} saves a minute each, ${load.shards} shard(s)`,
    ...phases,
    '',
    `processes        web=${processes.web} grading=${processes.grading} gradenotices=${processes.gradenotices}, one of each other type`,
    `MongoDB          ${round(sizing.commandsOfShard)} commands a second on the first shard, ${sizing.pollsOfShard} of them polls`,
    `shards needed    ${sizing.shardsNeeded ?? 'none suffices'}, at ${round(ASSUMED.commandsOfShard)} commands a second for each (assumed)`,
    `connections      ${round(sizing.connections)} to MongoDB, of all processes`,
    `Redis            ${round(sizing.redisCommands)} commands a second, one server`,
    `disk             ${sizing.diskGiB.toFixed(1)} GiB a term on each member of a shard`,
  ].join('\n');
}

export function round(number: number): string {
  return Math.ceil(number).toLocaleString('en-US').replaceAll(',', ' ');
}
