import { attempts } from '#infra/mongo/attempt/collections.ts';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { NOTICES, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { deliveryAttempts } from '#infra/mongo/notification/collections.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { EventType } from '#shared/attempt/attempt.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { ownerKeysOf } from '#shared/classifier/generation.ts';
import type { Command, CommandStatus } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { Neighbours } from '#testing/neighbours/neighbours.ts';
import {
  graded,
  type PostOptions,
  postGrading,
  postHandoff,
  postRelease,
  SUBMITTED,
  storeAttempt,
} from '#testing/stored/stored-attempts.ts';
import { postDelivery } from '#testing/stored/stored-deliveries.ts';
import { generationOf, postSettlement } from '#testing/stored/stored-generations.ts';
import { finishedOnce, postJob } from '#testing/stored/stored-jobs.ts';
import type { WorkerDeps } from '#workers/actor.ts';
import { ACTORS } from '#workers/actors.ts';

/** What the kernel suite must know of an actor to run any of its features against it. */
export interface ActorSubject {
  name: string;
  /** Stores what a command is about and posts the command. */
  post(options?: PostOptions): Promise<Command>;
  /** How often the command's change was made, seen from the data alone; NaN = half made. */
  effects(command: Command): Promise<number>;
  /** How a good run ends. A standing command never ends: it puts itself back for the next time. */
  ends: { ending: 'done' | 'snoozed'; status: CommandStatus };
  /** A command that a rule refuses, where the actor has such a rule. */
  postRejected?: () => Promise<Command>;
}

/** A subject for each actor that the product has. */
export function actorSubjects(mongo: Mongo, neighbours: Neighbours): ActorSubject[] {
  return Object.keys(ACTORS).map((name) => actorSubject(name, mongo, neighbours));
}

/** The subject for one of the product's actors; one without its entry here is an error. */
export function actorSubject(name: string, mongo: Mongo, neighbours: Neighbours): ActorSubject {
  const makers: Record<string, () => ActorSubject> = {
    grading: () => grading(mongo),
    essayhandoff: () => essayHandoff(mongo),
    resultsrelease: () => resultsRelease(mongo),
    gradenotices: () => gradeNotice(mongo, neighbours),
    classifier: () => classifier(mongo),
    delivery: () => delivery(mongo, neighbours),
    settlement: () => settlement(mongo, neighbours),
    upkeep: () => upkeep(mongo),
  };
  const make = makers[name];
  if (make === undefined) throw new Error(`the kernel suite does not know how to post a command of ${name}`);
  return make();
}

export function makeActor(name: string, deps: WorkerDeps) {
  const make = ACTORS[name];
  if (make === undefined) throw new Error(`no actor is called ${name}`);
  return make(deps);
}

const DONE = { ending: 'done', status: 'DONE' } as const;

function grading(mongo: Mongo): ActorSubject {
  return {
    name: 'grading',
    ends: DONE,
    post: async (options) => postGrading(mongo, await storeAttempt(mongo, SUBMITTED), options),
    effects: (command) => countEvents(mongo, command.subject, 'SUBMIT'),
  };
}

function essayHandoff(mongo: Mongo): ActorSubject {
  return {
    name: 'essayhandoff',
    ends: DONE,
    post: async (options) => postHandoff(mongo, await storeAttempt(mongo, graded()), {}, options),
    postRejected: async () => postHandoff(mongo, await storeAttempt(mongo), { sourceEventId: 'refused' }),
    effects: (command) => countEvents(mongo, command.subject, 'ESSAY_GRADE_HANDOFF'),
  };
}

const CLASS = 3;

function resultsRelease(mongo: Mongo): ActorSubject {
  return {
    name: 'resultsrelease',
    ends: DONE,
    async post(options) {
      const examId = `exam-${newId()}`;
      for (let n = 0; n < CLASS; n++) await storeAttempt(mongo, { ...graded({ showResultMode: 'MANUAL' }), examId });
      return postRelease(mongo, { examId }, options);
    },
    async effects({ subject: examId }) {
      const released = await attempts(mongo).countDocuments({ examId, 'exam.resultsReleasedAt': { $ne: null } });
      const rows = await mongo.db.collection(NOTICES).countDocuments({ 'body.examId': examId });
      if (rows !== released * 2) return Number.NaN;
      return released / CLASS;
    },
  };
}

function gradeNotice(mongo: Mongo, neighbours: Neighbours): ActorSubject {
  return {
    name: 'gradenotices',
    ends: { ending: 'done', status: 'DELIVERED' },
    async post({ maxAttempts = 10, runAt } = {}) {
      const [notice] = gradeNotices(await storeAttempt(mongo, graded()), null);
      if (notice === undefined) throw new Error('an attempt has no notice');
      const now = runAt ?? Date.now() - 1_000;
      await inTransaction(mongo, 5_000, (session) => queueNotices(mongo, session, [notice], { maxAttempts, now }));
      return (await mailboxOf(mongo, 'gradenotices:student').findOne({ _id: notice.sourceEventId })) as Command;
    },
    // Delivery is at least once; what must be one is the receiver's distinct events.
    effects: async (command) => (neighbours.notices.has(command._id) ? 1 : 0),
  };
}

function delivery(mongo: Mongo, neighbours: Neighbours): ActorSubject {
  return {
    name: 'delivery',
    ends: { ending: 'done', status: 'SENT' },
    post: ({ maxAttempts, runAt } = {}) =>
      postDelivery(mongo, {
        ...(maxAttempts === undefined ? {} : { maxAttempts }),
        ...(runAt === undefined ? {} : { now: runAt }),
      }),
    // Delivery is at least once; what must be one is the receiver's distinct jobs, and the try that says so.
    async effects({ _id, subject }) {
      const sent = await deliveryAttempts(mongo).countDocuments({ notificationId: subject, status: 'SENT' });
      return sent === 1 && !neighbours.notices.has(_id) ? Number.NaN : sent;
    },
  };
}

function classifier(mongo: Mongo): ActorSubject {
  return {
    name: 'classifier',
    ends: DONE,
    post: (options) => postJob(mongo, options),
    effects: ({ subject }) => finishedOnce(mongo, subject),
  };
}

function settlement(mongo: Mongo, { ledger }: Neighbours): ActorSubject {
  return {
    name: 'settlement',
    ends: DONE,
    post: (options) => postSettlement(mongo, options),
    // Owners are asked at least once; what must be one is what stands in their books, and settled is what both of them have.
    async effects(command) {
      const { _id, state } = await generationOf(mongo, command);
      const keys = ownerKeysOf(_id);
      const [counted, paid] = [ledger.consumed.has(keys.usage), ledger.debits.has(keys.debit)];
      if (state === 'SETTLED') return counted && paid ? 1 : Number.NaN;
      return paid && !counted ? Number.NaN : 0;
    },
  };
}

function upkeep(mongo: Mongo): ActorSubject {
  return {
    name: 'upkeep',
    ends: { ending: 'snoozed', status: 'PENDING' },
    async post({ maxAttempts = 10, runAt } = {}) {
      const attempt = await storeAttempt(mongo);
      const about = { queue: 'upkeep', key: `upkeep:${attempt._id}`, subject: attempt._id, body: {} } as const;
      const now = Date.now() - 1_000;
      const wanted = { ...about, maxAttempts, now, ...(runAt === undefined ? {} : { runAt }) };
      return (await postCommand(mongo, newCommand(wanted))).command;
    },
    effects: ({ subject }) => mailboxOf(mongo, 'grading').countDocuments({ queue: 'grading', subject }),
  };
}

async function countEvents(mongo: Mongo, attemptId: string, type: EventType): Promise<number> {
  const attempt = await attempts(mongo).findOne({ _id: attemptId });
  return attempt?.events.filter((event) => event.type === type).length ?? Number.NaN;
}
