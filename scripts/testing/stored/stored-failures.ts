import { queueNotices } from '#infra/mongo/attempt/release.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { actorOf, type Command, type Queue } from '#shared/kernel/command.ts';
import { refusedBy } from '#shared/kernel/failure.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { type AnyOutcome, withStep } from '#testing/actors/scripted-actor.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { graded, storeAttempt } from './stored-attempts.ts';

/** Actors whose neighbours and channel are configured. Nothing listens there. */
const NOWHERE = 'http://127.0.0.1:9';
const ENV = {
  NOTIFICATION_SERVICE_URL: NOWHERE,
  PROFILE_SERVICE_URL: NOWHERE,
  ANALYTICS_SERVICE_URL: NOWHERE,
  NOTIFICATION_CHANNELS: 'log',
};

/** Runs the command once, as its actor would. The run ends with this outcome. */
export async function runAs(mongo: Mongo, command: Command, outcome: AnyOutcome): Promise<void> {
  const actor = makeActor(actorOf(command.queue), testWorkerDeps(mongo, ENV));
  await runCommand(
    testKernel(mongo),
    withStep(actor, async () => outcome),
    command,
  );
}

/** A run that failed and has spent an attempt. */
export function retried({ message = 'the disk is full', afterMs = 5_000 } = {}) {
  return { kind: 'retry', error: new Error(message), afterMs } as const;
}

/** A run whose call a service refused, and that has spent no attempt. */
export function refusedRun(service: string, status: number) {
  const error = refusedBy(new Error(`the ${service} service answered ${status}`), { service, status });
  return { kind: 'snooze', afterMs: MINUTE, error } as const;
}

/** Posts the notices of a graded attempt, due one second ago. Returns that of the student and that of the parents. */
export async function postNotices(mongo: Mongo, notBefore?: Date): Promise<[Command, Command]> {
  const notices = gradeNotices(await storeAttempt(mongo, graded()));
  const planned = notices.map((notice) => (notBefore === undefined ? notice : { ...notice, notBefore }));
  const options = { maxAttempts: 3, now: Date.now() - SECOND };
  await inTransaction(mongo, MINUTE, (session) => queueNotices(mongo, session, planned, options));
  const rowOf = (queue: Queue) => mailboxOf<Queue>(mongo, queue).findOne({ queue }) as Promise<Command>;
  return [await rowOf('gradenotices:student'), await rowOf('gradenotices:parent')];
}
