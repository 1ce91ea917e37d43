import type { ClientSession, Collection, OptionalUnlessRequiredId } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';

/** The collection in which every command lies, but for those whose rows are a product of their own. */
export const COMMANDS = 'commands';
/** The outbox: each row is both a notice to be sent and the command that sends it. */
export const NOTICES = 'attempt_notices';
/** Delivery jobs, one per notification and channel. */
export const DELIVERIES = 'notification_deliveries';

/** Every collection that holds commands, for operators and metrics. */
export const MAILBOXES = [COMMANDS, NOTICES, DELIVERIES] as const;

export const MAILBOX_OF: Readonly<Record<Queue, (typeof MAILBOXES)[number]>> = {
  grading: COMMANDS,
  essayhandoff: COMMANDS,
  resultsrelease: COMMANDS,
  upkeep: COMMANDS,
  'gradenotices:student': NOTICES,
  'gradenotices:parent': NOTICES,
  'delivery:log': DELIVERIES,
  'delivery:webhook': DELIVERIES,
  'upkeep:fanouts': COMMANDS,
  classifier: COMMANDS,
  settlement: COMMANDS,
};

export const QUEUES = Object.keys(MAILBOX_OF) as Queue[];

/** The process type that works on this queue: its name, or what stands before the colon of it. */
export function actorOf(queue: Queue): string {
  return queue.split(':', 1)[0] ?? queue;
}

export function mailboxOf<Body, Progress = unknown, Result = unknown>(
  mongo: Mongo,
  queue: Queue,
): Collection<Command<Body, Progress, Result>> {
  return mongo.db.collection<Command<Body, Progress, Result>>(MAILBOX_OF[queue]);
}

interface NewCommand<Body> {
  queue: Queue;
  key: string;
  subject: string;
  body: Body;
  maxAttempts: number;
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
  /** Not before this; default at once (Unix milliseconds). */
  runAt?: number;
}

/** The document of a command that nobody has claimed yet. */
export function newCommand<Body>(wanted: NewCommand<Body>): Command<Body, null, null> {
  return {
    _id: newId(wanted.now),
    v: 1,
    queue: wanted.queue,
    key: wanted.key,
    live: true,
    subject: wanted.subject,
    status: 'PENDING',
    attempts: 0,
    maxAttempts: wanted.maxAttempts,
    nextRunAt: new Date(wanted.runAt ?? wanted.now),
    lockedUntil: null,
    workerId: null,
    fence: 0,
    body: wanted.body,
    progress: null,
    result: null,
    lastError: null,
    replays: 0,
    createdAt: new Date(wanted.now),
    settledAt: null,
  };
}

/** Writes a command inside the caller's transaction; a live one with the same key is a duplicate key error. */
export async function postCommandIn<Body>(
  mongo: Mongo,
  session: ClientSession,
  command: Command<Body, null, null>,
): Promise<void> {
  await mailboxOf<Body, null, null>(mongo, command.queue).insertOne(
    command as OptionalUnlessRequiredId<Command<Body, null, null>>,
    { session },
  );
}

/** Writes a command, or finds the live one with the same key: the first writer wins and everybody sees its command. */
export async function postCommand<Body>(
  mongo: Mongo,
  command: Command<Body, null, null>,
): Promise<{ command: Command<Body>; created: boolean }> {
  const mailbox = mailboxOf<Body>(mongo, command.queue);
  // Twice: the live command that stood in the way may be rejected, and its key freed, between insert and read.
  for (let round = 0; ; round++) {
    try {
      await mailbox.insertOne(command as OptionalUnlessRequiredId<Command<Body>>);
      return { command, created: true };
    } catch (error) {
      if (!isDuplicateKey(error, ['key']) || round === 5) throw error;
    }
    const standing = await findLive<Body>(mongo, command.queue, command.key);
    if (standing !== null) return { command: standing, created: false };
  }
}

/** The live command of this key: waiting, running, done or dead, but not rejected. */
export async function findLive<Body>(
  mongo: Mongo,
  queue: Queue,
  key: string,
  session?: ClientSession,
): Promise<Command<Body> | null> {
  const options = session === undefined ? {} : { session };
  return (await mailboxOf<Body>(mongo, queue).findOne({ key, live: true }, options)) as Command<Body> | null;
}

/** The command as it stands, or null. */
export async function readCommand(mongo: Mongo, queue: Queue, id: string): Promise<Command | null> {
  return (await mailboxOf(mongo, queue).findOne({ _id: id })) as Command | null;
}

/** Looks after commands that front doors wait for. */
export interface SettledLooks {
  /** Whether its worker has finished with it, one way or the other; false also for an unknown id. Rejects in an outage. */
  isSettled(queue: Queue, id: string): Promise<boolean>;
}

interface Look {
  queue: Queue;
  ids: Set<string>;
  settled: PromiseWithResolvers<ReadonlySet<string>>;
}

/** Ids in one query; more go into the next. */
const MOST_IDS = 500;

/**
 * One query at a time for everybody who asks: whoever asks while it is under way is in the next one. Two thousand
 * students who wait for a late grade would otherwise send MongoDB thousands of queries a second, and nobody else's
 * answers would get through.
 */
export function openSettledLooks(mongo: Mongo): SettledLooks {
  const waiting: Look[] = [];
  let isLooking = false;

  async function look(): Promise<void> {
    isLooking = true;
    // Those who ask in the same turn come along.
    await new Promise(setImmediate);
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      await settledOf(mongo, next).then(next.settled.resolve, next.settled.reject);
    }
    isLooking = false;
  }

  return {
    async isSettled(queue, id) {
      let mine = waiting.find((open) => open.queue === queue && open.ids.size < MOST_IDS);
      if (mine === undefined) {
        mine = { queue, ids: new Set(), settled: Promise.withResolvers() };
        waiting.push(mine);
      }
      mine.ids.add(id);
      if (!isLooking) void look();
      return (await mine.settled.promise).has(id);
    },
  };
}

async function settledOf(mongo: Mongo, { queue, ids }: Look): Promise<ReadonlySet<string>> {
  const found = await mailboxOf(mongo, queue)
    .find({ _id: { $in: [...ids] } }, { projection: { status: 1 }, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  return new Set(found.filter(({ status }) => status !== 'PENDING').map(({ _id }) => _id));
}
