import type { Document } from 'mongodb';
import t from 'tap';
import { attempts, examActs, papers, releases } from '#infra/mongo/attempt/collections.ts';
import { storeRelease } from '#infra/mongo/attempt/release.ts';
import { aiJobBatches, aiJobSelections, aiJobs, generations } from '#infra/mongo/classifier/collections.ts';
import { type Mongo, openMongo } from '#infra/mongo/connect.ts';
import { DELIVERIES, newCommand, QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { deliveryAttempts, fanOuts, notificationEvents, notifications } from '#infra/mongo/notification/collections.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { subscriptions } from '#infra/mongo/operations/subscriptions.ts';
import { noticeOrder } from '#shared/attempt/commands.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { actorOf, type Command, type Queue } from '#shared/kernel/command.ts';
import type { EventMessage } from '#shared/kernel/event-out.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { Channel } from '#shared/notification/delivery.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openMailReceiver } from '#testing/neighbours/mail-receiver.ts';
import { type Neighbours, openNeighbours } from '#testing/neighbours/neighbours.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { postBulkAct, storeDeadGrading } from '#testing/stored/stored-dead-letters.ts';
import {
  analyticsIds,
  postAnalytics,
  postAudit,
  postMessage,
  postPublish,
  storeSubscription,
} from '#testing/stored/stored-events.ts';
import { postDelivery, sampleFanOut } from '#testing/stored/stored-notifications.ts';
import { type Late, lateShard } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, PATIENT, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { actorSubject, makeActor } from '#testing/suites/actor-subjects.ts';
import type { RunResult } from '#workers/life.ts';
import { runCommand } from './run-command.ts';

/** A command of one queue, and what its run does. */
interface QueueCase {
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
function queueCases(mongo: Mongo, neighbours: Neighbours): Readonly<Record<Queue, QueueCase>> {
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
    examroom: subject('examroom', {
      [examActs(mongo).collectionName]: missing,
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

/** The command of an erased person: it does not contain the key of its generation, which is read by its id. */
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

const mongo = await openTestMongo(t);
const neighbours = await openNeighbours(t);
const { env: mailEnv } = await openMailReceiver(t);
const cases = queueCases(mongo, neighbours);
const env = {
  ...neighbours.env,
  ...neighbours.ownersEnv,
  ...neighbours.webhookEnv,
  ...mailEnv,
  NOTIFICATION_WEBPUSH_PRIVATE_KEY: 'yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw',
  NOTIFICATION_WEBPUSH_SUBJECT: 'mailto:it@school.example',
  ...neighbours.auditEnv,
  NOTIFICATION_CHANNELS: 'log,webhook,email,webpush',
};

for (const queue of QUEUES) {
  const { post, ends, effects, late } = cases[queue];
  t.test(`${queue}: a run does its work although other shards do not show its cause yet`, async (t) => {
    const command = await post();
    const seen = lateShard(mongo, late);
    const deps = testWorkerDeps(seen.mongo, env);
    const kernel = testKernel(seen.mongo);
    t.equal(await runCommand(kernel, makeActor(actorOf(queue), deps), command), ends, JSON.stringify(kernel.log));
    t.equal(await effects(command), 1);
    t.strictSame([...seen.arrived].sort(), Object.keys(late).filter(isRead(queue)).sort(), 'it has read them');
  });

  t.test(`${queue}: claim and reads share one session, which names the time of the claim`, async (t) => {
    const command = await post();
    const watched = watchedMongo(t);
    const deps = testWorkerDeps(watched.mongo, env);
    t.equal(await runCommand(testKernel(watched.mongo), makeActor(actorOf(queue), deps), command), ends);
    t.strictSame(faultsOf(queue, command._id, watched.events), []);
    t.equal(Reflect.get(watched.mongo.db.readConcern ?? {}, 'afterClusterTime'), undefined, 'other reads stay plain');
  });
}

/** Collections that a run of this case need not read. */
function isRead(queue: Queue): (collection: string) => boolean {
  // The questions of this job were loaded when it was created.
  return (collection) => queue !== 'classifier' || collection !== 'ai_job_selections';
}

/** Every process reads the key of hashes once, and it never changes. */
const KEY = { cluster_keys: { after: false, why: 'the key never changes' } } as const;
const WANTED = { after: false, why: 'a new subscription counts after some seconds' } as const;

/**
 * Reads outside the session, by queue and collection, and why they may be. `after` allows them only after the session has read the
 * collection, and has so waited for its shard.
 */
const PLAIN: Partial<Record<Queue, Readonly<Record<string, { after: boolean; why: string }>>>> = {
  'delivery:webpush': {
    notification_push_subscriptions: { after: false, why: 'a browser that is registered later gets later messages' },
  },
  upkeep: {
    attempts: { after: false, why: 'what a sweep does not see yet, the next one finds' },
    event_subscriptions: WANTED,
  },
  grading: { event_subscriptions: WANTED },
  resultsrelease: { event_subscriptions: WANTED },
  classifier: {
    ai_jobs: { after: true, why: 'watches the round beside checkpoints' },
    ai_job_batches: { after: true, why: 'reads the questions beside checkpoints' },
    event_subscriptions: WANTED,
  },
};

interface Sent {
  at: 'start' | 'end';
  id: number;
  name: string;
  command: Document;
}

/** Returns a client whose commands are recorded. */
function watchedMongo(t: { teardown(work: () => unknown): void }): { mongo: TestMongo; events: Sent[] } {
  const { url, database } = mongo;
  const own = openMongo({ url, database, appName: 'examhall-test' }, PATIENT);
  t.teardown(() => own.close());
  const events: Sent[] = [];
  Reflect.set(own.client, 'monitorCommands', true);
  own.client.on('commandStarted', ({ requestId, commandName, command }) =>
    events.push({ at: 'start', id: requestId, name: commandName, command }),
  );
  const ended = ({ requestId, commandName }: { requestId: number; commandName: string }) =>
    void events.push({ at: 'end', id: requestId, name: commandName, command: {} });
  own.client.on('commandSucceeded', ended).on('commandFailed', ended);
  return { mongo: { ...own, url, database }, events };
}

const READS = new Set(['find', 'aggregate', 'count', 'distinct', 'getMore', 'findAndModify']);

/** Returns the reads between the claim and the end of its session that are not causal, and those that overlap another one. */
function faultsOf(queue: Queue, commandId: string, events: readonly Sent[]): string[] {
  const claim = events.findIndex(({ name, command }) => name === 'findAndModify' && command.query?._id === commandId);
  const session = sessionOf(events[claim]?.command);
  if (session === null) return ['the claim runs in no session'];
  const last = events.findLastIndex(({ command }) => sessionOf(command) === session);
  const open = new Set<number>();
  const faults: string[] = [];
  const known = new Set<string>();
  for (const { at, id, name, command } of events.slice(claim + 1, last + 1)) {
    if (at === 'end') {
      open.delete(id);
      continue;
    }
    const isOurs = sessionOf(command) === session;
    const about = `${name} ${command[name]}`;
    if (isOurs && open.size > 0) faults.push(`${about} runs beside another command of the session`);
    if (isOurs) open.add(id);
    if (!READS.has(name) || command.autocommit === false) continue;
    const isLate = command.readConcern?.afterClusterTime !== undefined;
    if (isOurs) known.add(command[name]);
    if (isOurs && !isLate) faults.push(`${about} names no time`);
    if (!isOurs && isLate) faults.push(`${about} names a time outside the session`);
    const allowed = { ...KEY, ...PLAIN[queue] }[command[name] as string];
    const mayBePlain = allowed !== undefined && (!allowed.after || known.has(command[name]));
    if (!isOurs && !mayBePlain) faults.push(`${about} runs outside the session`);
  }
  return faults;
}

function sessionOf(command: Document | undefined): string | null {
  return command?.lsid === undefined ? null : command.lsid.id.toString('hex');
}
