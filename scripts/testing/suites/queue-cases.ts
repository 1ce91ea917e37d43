import { attempts, papers, releases } from '#infra/mongo/attempt/collections.ts';
import { storeRelease } from '#infra/mongo/attempt/release.ts';
import { aiJobBatches, aiJobSelections, aiJobs, generations } from '#infra/mongo/classifier/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { DELIVERIES, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { deliveryAttempts, fanOuts, notificationEvents, notifications } from '#infra/mongo/notification/collections.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { subscriptions } from '#infra/mongo/operations/subscriptions.ts';
import { noticeOrder } from '#shared/attempt/commands.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import type { EventMessage } from '#shared/kernel/event-out.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { Channel } from '#shared/notification/delivery.ts';
import type { Neighbours } from '#testing/neighbours/neighbours.ts';
import { sampleFanOut } from '#testing/stored/sample-fan-out.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { postBulkAct, storeDeadGrading } from '#testing/stored/stored-dead-letters.ts';
import { postDelivery } from '#testing/stored/stored-deliveries.ts';
import {
  analyticsIds,
  postAnalytics,
  postAudit,
  postMessage,
  postPublish,
  storeSubscription,
} from '#testing/stored/stored-events.ts';
import type { Late } from '#testing/stores/late-shard.ts';
import type { RunResult } from '#workers/life.ts';
import { actorSubject } from './actor-subjects.ts';

/** A command of one queue, and what its run does. */
export interface QueueCase {
  post(): Promise<Command>;
  /** End of a run that does its work. */
  ends: RunResult;
  /** Returns from the stored data how often the command's change was made. */
  effects(command: Command): Promise<number>;
  /** Rows that are committed together with the command, as a reader sees them before. Empty: a run reads none. */
  late: Late;
}

const missing = () => null;

/** Returns a case for each queue. A queue without a case does not compile. */
export function queueCases(mongo: Mongo, neighbours: Neighbours): Readonly<Record<Queue, QueueCase>> {
  const subject = (name: string, late: Late): QueueCase => {
    const { post, effects, ends } = actorSubject(name, mongo, neighbours);
    return { post, effects, ends: ends.result, late };
  };
  return {
    grading: grading(mongo),
    essayhandoff: subject('essayhandoff', {
      [attempts(mongo).collectionName]: missing,
      [papers(mongo).collectionName]: missing,
    }),
    resultsrelease: subject('resultsrelease', {
      [releases(mongo).collectionName]: missing,
      [attempts(mongo).collectionName]: missing,
    }),
    'gradenotices:student': subject('gradenotices', {}),
    'gradenotices:parent': parentNotice(mongo, neighbours),
    accountnotices: subject('accountnotices', {}),
    'delivery:log': delivery(mongo, 'log'),
    'delivery:webhook': delivery(mongo, 'webhook'),
    'delivery:email': delivery(mongo, 'email'),
    'delivery:webpush': unsubscribed(mongo),
    classifier: subject('classifier', {
      [aiJobs(mongo).collectionName]: missing,
      [aiJobSelections(mongo).collectionName]: missing,
      [aiJobBatches(mongo).collectionName]: missing,
    }),
    settlement: settlement(mongo, neighbours),
    upkeep: subject('upkeep', {}),
    'upkeep:fanouts': finishedFanOut(mongo),
    'upkeep:deadletters': bulkReplay(mongo),
    'upkeep:analytics': analyticsReport(mongo, neighbours),
    'upkeep:audit': auditReport(mongo, neighbours),
    'upkeep:publish': publication(mongo, neighbours),
    'upkeep:webhooks': message(mongo, neighbours),
  };
}

/** An attempt that a release binds whose walk has passed before its insert: the grading reads the release. */
function grading(mongo: Mongo): QueueCase {
  return {
    ends: 'done',
    async post() {
      const attempt = await storeAttempt(mongo, { ...SUBMITTED, examId: `exam-${newId()}` });
      const release = { examId: attempt.examId, organizationId: null, releasedAt: new Date(), sourceEventId: newId() };
      const { command } = await storeRelease(mongo, release, { maxAttempts: 10, now: Date.now(), budgetMs: 60_000 });
      await mailboxOf(mongo, 'resultsrelease').deleteOne({ _id: command._id });
      return postGrading(mongo, attempt);
    },
    effects: ({ subject }) =>
      attempts(mongo).countDocuments({ _id: subject, status: 'GRADED', 'exam.resultsReleasedAt': { $ne: null } }),
    late: {
      [attempts(mongo).collectionName]: (row) => ({ ...row, status: 'IN_PROGRESS' }),
      [papers(mongo).collectionName]: missing,
      [releases(mongo).collectionName]: missing,
    },
  };
}

function parentNotice(mongo: Mongo, neighbours: Neighbours): QueueCase {
  return {
    ends: 'done',
    async post() {
      neighbours.parents = ['parent-1'];
      const notice = gradeNotices(await storeAttempt(mongo)).find(({ recipient }) => recipient === 'PARENT');
      if (notice === undefined) throw new Error('an attempt has no notice for parents');
      const order = noticeOrder(notice);
      return (await postCommand(mongo, newCommand({ ...order, maxAttempts: 10, now: Date.now(), id: order.key })))
        .command;
    },
    effects: async ({ _id }) => (neighbours.notices.has(_id) ? 1 : 0),
    late: {},
  };
}

function delivery(mongo: Mongo, channel: Channel): QueueCase {
  return {
    ends: 'done',
    post: () => postDelivery(mongo, { channel }),
    effects: ({ subject }) =>
      deliveryAttempts(mongo).countDocuments({ notificationId: subject, channel, status: 'SENT' }),
    late: { [notifications(mongo).collectionName]: missing },
  };
}

/** A push to a user without a browser. The push services of real browsers have public addresses alone. */
function unsubscribed(mongo: Mongo): QueueCase {
  return {
    ...delivery(mongo, 'webpush'),
    effects: ({ _id }) =>
      mailboxOf(mongo, 'delivery:webpush').countDocuments({ _id, 'result.reason': 'NO_SUBSCRIPTION' }),
  };
}

/** The command of an earlier version: it does not contain the key of its generation, which is read by its id. */
function settlement(mongo: Mongo, neighbours: Neighbours): QueueCase {
  const { post, effects } = actorSubject('settlement', mongo, neighbours);
  return {
    ends: 'done',
    async post() {
      const command = await post();
      await mailboxOf(mongo, 'settlement').updateOne({ _id: command._id }, { $unset: { 'body.key': '' } });
      return command;
    },
    effects,
    late: { [generations(mongo).collectionName]: missing },
  };
}

/** A bulk act that replays one dead grading. */
function bulkReplay(mongo: Mongo): QueueCase {
  return {
    ends: 'done',
    async post() {
      const { subject } = await storeDeadGrading(mongo);
      return postBulkAct(mongo, { filter: { queue: 'grading', subject } });
    },
    effects: ({ subject }) => mailboxOf(mongo, 'grading').countDocuments({ subject, status: 'PENDING', replays: 1 }),
    late: {},
  };
}

function analyticsReport(mongo: Mongo, neighbours: Neighbours): QueueCase {
  return {
    ends: 'done',
    post: () => postAnalytics(mongo),
    effects: async (command) => (analyticsIds(command).every((id) => neighbours.analytics.get(id) === 1) ? 1 : 0),
    late: { [attempts(mongo).collectionName]: missing, [papers(mongo).collectionName]: missing },
  };
}

function auditReport(mongo: Mongo, neighbours: Neighbours): QueueCase {
  return {
    ends: 'done',
    post: () => postAudit(mongo),
    effects: async ({ subject }) => neighbours.analytics.get(subject) ?? 0,
    late: { [notificationEvents(mongo).collectionName]: missing },
  };
}

function publication(mongo: Mongo, neighbours: Neighbours): QueueCase {
  return {
    ends: 'done',
    async post() {
      await subscriptions(mongo).deleteMany({});
      await storeSubscription(mongo, neighbours.url);
      return postPublish(mongo);
    },
    effects: ({ _id }) => mailboxOf(mongo, 'upkeep:webhooks').countDocuments({ 'body.eventId': _id }),
    late: { [attempts(mongo).collectionName]: missing, [papers(mongo).collectionName]: missing },
  };
}

function message(mongo: Mongo, neighbours: Neighbours): QueueCase {
  return {
    ends: 'done',
    post: async () => postMessage(mongo, (await storeSubscription(mongo, `${neighbours.url}/events`))._id),
    effects: async ({ body }) => neighbours.notices.get((body as EventMessage).eventId) ?? 0,
    late: { [attempts(mongo).collectionName]: missing, [subscriptions(mongo).collectionName]: missing },
  };
}

const ROWS = 3;

function finishedFanOut(mongo: Mongo): QueueCase {
  return {
    ends: 'snoozed',
    async post() {
      const fanOut = sampleFanOut({ rows: ROWS, rowsAtOnce: 2 });
      await insertFanOut(mongo, fanOut);
      return fanOut.finish;
    },
    async effects({ subject }) {
      const rows = await notifications(mongo).find({ fanOutId: subject }).toArray();
      const ids = rows.map(({ _id }) => _id);
      const ofOneChannel = { 'body.notificationId': { $in: ids }, 'body.channel': 'log' };
      return (await mongo.db.collection(DELIVERIES).countDocuments(ofOneChannel)) / ROWS;
    },
    late: { [fanOuts(mongo).collectionName]: (row) => ({ ...row, state: 'STAGING', publishedAt: null }) },
  };
}
