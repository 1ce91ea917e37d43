import { queueNotices } from '#infra/mongo/attempt/release.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { type BulkAct, type BulkRequest, postBulk } from '#infra/mongo/operations/bulk-acts.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { actorOf, type Command, type Queue } from '#shared/kernel/command.ts';
import { refusedBy } from '#shared/kernel/failure.ts';
import { newId } from '#shared/kernel/ids.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { type AnyOutcome, testKernel, testWorkerDeps, withStep } from '#testing/actors/test-kernel.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { graded, postGrading, SUBMITTED, storeAttempt } from './stored-attempts.ts';

export const OPERATOR = { operator: 'op-1', reason: 'the fault is mended' } as const;

/** Stores an attempt whose grading died of `message` one second ago. */
export async function storeDeadGrading(mongo: Mongo, message = 'the disk is full'): Promise<Command> {
  const { _id } = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 10 });
  return die(mongo, _id, message);
}

export async function die(mongo: Mongo, _id: string, message: string, settledAt = new Date(Date.now() - 1_000)) {
  const error = { fingerprint: `Error: ${message}`, message, at: settledAt, code: null, refusal: null };
  const dead = await mailboxOf(mongo, 'grading').findOneAndUpdate(
    { _id },
    {
      $set: { status: 'DEAD', settledAt, lastError: error, attempts: 10, lockedUntil: null, workerId: null },
      $inc: { fence: 1 },
    },
    { returnDocument: 'after' },
  );
  if (dead === null) throw new Error(`grading ${_id} is gone`);
  return dead as Command;
}

/** Posts a bulk act: by default a replay of all dead gradings, as fast as is allowed. */
export async function postBulkAct(
  mongo: Mongo,
  change: Partial<BulkRequest & Pick<OperatorAct, 'operator' | 'now'>> = {},
): Promise<BulkAct> {
  const { operator = OPERATOR.operator, now = Date.now(), ...request } = change;
  const wanted: BulkRequest = {
    act: 'replay',
    chargeSuperseded: false,
    filter: { queue: 'grading' },
    perSecond: 200,
    key: newId(),
    ...request,
  };
  const posted = await postBulk(mongo, wanted, { ...OPERATOR, operator, now }, { maxAttempts: 10 });
  if (posted.kind === 'erased') throw new Error('the subject of the bulk act is erased');
  return posted.command;
}

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

export function retried({ afterMs = 5_000 } = {}) {
  return { kind: 'retry', error: new Error('the disk is full'), afterMs } as const;
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
