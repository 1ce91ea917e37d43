import type { ClientSession, OptionalUnlessRequiredId } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { mailboxOf } from './mailbox.ts';

export interface NewCommand<Body> {
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
