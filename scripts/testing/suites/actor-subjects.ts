import { isWorkerType } from '#infra/config/readers.ts';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { deliveryAttempts } from '#infra/mongo/notification/collections.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { EventType } from '#shared/attempt/attempt.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { ownerKeysOf } from '#shared/classifier/generation.ts';
import type { Command, CommandStatus } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { HOUR } from '#shared/kernel/time.ts';
import type { TestWorkerDeps } from '#testing/actors/test-kernel.ts';
import type { Neighbours } from '#testing/neighbours/neighbours.ts';
import { postAccountNotice } from '#testing/stored/stored-accounts.ts';
import {
  graded,
  type PostOptions,
  postExtraTime,
  postGrading,
  postHandoff,
  postOrder,
  postRelease,
  SUBMITTED,
  storeAttempt,
} from '#testing/stored/stored-attempts.ts';
import { finishedOnce, generationOf, postJob, postSettlement } from '#testing/stored/stored-model-work.ts';
import { postDelivery } from '#testing/stored/stored-notifications.ts';
import { ACTORS } from '#workers/actors.ts';

export interface ActorSubject {
  name: string;
  post(options?: PostOptions): Promise<Command>;
  /** Returns from the stored data how often the command's change was made; NaN if it is incomplete. */
  effects(command: Command): Promise<number>;
  /** End of a successful run. A recurring command never settles: each run snoozes it. */
  ends: { result: 'done' | 'snoozed'; status: CommandStatus };
  /** Posts a command that a rule rejects; absent if the actor has no such rule. */
  postRejected?: () => Promise<Command>;
}

export function actorSubjects(mongo: Mongo, neighbours: Neighbours): ActorSubject[] {
  return Object.keys(ACTORS).map((name) => actorSubject(name, mongo, neighbours));
}

/** Returns the subject of one of the product's actors. @throws Error if the actor has no entry here */
export function actorSubject(name: string, mongo: Mongo, neighbours: Neighbours): ActorSubject {
  const subject = subjectsOf(mongo, neighbours)[name];
  if (subject === undefined) throw new Error(`the kernel suite has no subject for the actor ${name}`);
  return { name, ...subject };
}

const MAKERS = new Map(
  await Promise.all(Object.entries(ACTORS).map(async ([name, load]) => [name, await load()] as const)),
);

/** Creates one of the product's actors, with the secrets and addresses of its own process type alone. @throws Error for another name */
export function makeActor(name: string, deps: TestWorkerDeps) {
  const make = MAKERS.get(name);
  if (make === undefined || !isWorkerType(name)) throw new Error(`there is no actor ${name}`);
  return make({ ...deps, config: deps.configOf(name) });
}

const DONE = { result: 'done', status: 'DONE' } as const;
const CLASS = 3;

function subjectsOf(mongo: Mongo, neighbours: Neighbours): Readonly<Record<string, Omit<ActorSubject, 'name'>>> {
  const { ledger } = neighbours;
  async function eventsOf({ subject }: Command, type: EventType): Promise<number> {
    const attempt = await attempts(mongo).findOne({ _id: subject });
    return attempt?.events.filter((event) => event.type === type).length ?? Number.NaN;
  }
  // Delivery is at least once, so that repeats under one id count once.
  const notified = async (command: Command) => (neighbours.notices.has(command._id) ? 1 : 0);

  return {
    grading: {
      ends: DONE,
      post: async (options) => postGrading(mongo, await storeAttempt(mongo, SUBMITTED), options),
      effects: (command) => eventsOf(command, 'SUBMIT'),
    },
    essayhandoff: {
      ends: DONE,
      post: async (options) => postHandoff(mongo, await storeAttempt(mongo, graded()), {}, options),
      postRejected: async () => postHandoff(mongo, await storeAttempt(mongo), { sourceEventId: 'refused' }),
      effects: (command) => eventsOf(command, 'ESSAY_GRADE_HANDOFF'),
    },
    resultsrelease: {
      ends: DONE,
      async post(options) {
        const examId = `exam-${newId()}`;
        for (let n = 0; n < CLASS; n++) await storeAttempt(mongo, { ...graded({ showResultMode: 'MANUAL' }), examId });
        return postRelease(mongo, { examId }, options);
      },
      async effects({ subject: examId }) {
        const released = await attempts(mongo).countDocuments({ examId, 'exam.resultsReleasedAt': { $ne: null } });
        const rows = await mongo.db.collection(NOTICES).countDocuments({ 'body.examId': examId });
        return rows === released * 2 ? released / CLASS : Number.NaN;
      },
    },
    examroom: {
      ends: DONE,
      async post(options) {
        const examId = `exam-${newId()}`;
        for (let n = 0; n < CLASS; n++) await storeAttempt(mongo, { examId, deadlineAt: new Date(Date.now() + HOUR) });
        return postExtraTime(mongo, { examId }, options);
      },
      async effects({ _id, subject: examId }) {
        const extended = await attempts(mongo).countDocuments({ examId, extraTime: [_id], extraMinutes: 10 });
        return extended / CLASS;
      },
    },
    gradenotices: {
      ends: { result: 'done', status: 'DELIVERED' },
      async post({ maxAttempts = 10, runAt } = {}) {
        const [notice] = gradeNotices(await storeAttempt(mongo, graded()));
        if (notice === undefined) throw new Error('an attempt has no notice');
        const now = runAt ?? Date.now() - 1_000;
        await inTransaction(mongo, 60_000, (session) => queueNotices(mongo, session, [notice], { maxAttempts, now }));
        return (await mailboxOf(mongo, 'gradenotices:student').findOne({ _id: notice.sourceEventId })) as Command;
      },
      effects: notified,
    },
    accountnotices: {
      ends: { result: 'done', status: 'DELIVERED' },
      post: (options) => postAccountNotice(mongo, options),
      effects: notified,
    },
    delivery: {
      ends: { result: 'done', status: 'SENT' },
      post: ({ runAt, ...options } = {}) => postDelivery(mongo, { ...options, ...(runAt && { now: runAt }) }),
      // Repeats under one job id count once: exactly one delivery attempt may be SENT.
      async effects({ _id, subject }) {
        const sent = await deliveryAttempts(mongo).countDocuments({ notificationId: subject, status: 'SENT' });
        return sent === 1 && !neighbours.notices.has(_id) ? Number.NaN : sent;
      },
    },
    classifier: {
      ends: DONE,
      post: (options) => postJob(mongo, options),
      effects: ({ subject }) => finishedOnce(mongo, subject),
    },
    settlement: {
      ends: DONE,
      post: (options) => postSettlement(mongo, options),
      // Calls to owners are at least once, so that repeats under one key count once. SETTLED requires usage and debit.
      async effects(command) {
        const { _id, state } = await generationOf(mongo, command);
        const keys = ownerKeysOf(_id);
        const [counted, paid] = [ledger.consumed.has(keys.usage), ledger.debits.has(keys.debit)];
        if (state === 'SETTLED') return counted && paid ? 1 : Number.NaN;
        return paid && !counted ? Number.NaN : 0;
      },
    },
    upkeep: {
      ends: { result: 'snoozed', status: 'PENDING' },
      async post(options) {
        const { _id } = await storeAttempt(mongo);
        return postOrder(mongo, { queue: 'upkeep', key: `upkeep:${_id}`, subject: _id, body: {} }, options);
      },
      effects: ({ subject }) => mailboxOf(mongo, 'grading').countDocuments({ queue: 'grading', subject }),
    },
  };
}
