import type { Document } from 'mongodb';
import t from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { actorOf, type Queue } from '#shared/kernel/command.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openMailReceiver } from '#testing/neighbours/mail-receiver.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { lateShard } from '#testing/stores/late-shard.ts';
import { openTestMongo, PATIENT, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { queueCases } from '#testing/suites/queue-cases.ts';
import { runCommand } from './run-command.ts';

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
