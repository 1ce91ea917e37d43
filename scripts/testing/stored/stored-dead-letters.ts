import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { type BulkAct, type BulkRequest, postBulk } from '#infra/mongo/operations/bulk-acts.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { postGrading, SUBMITTED, storeAttempt } from './stored-attempts.ts';

/** The operator of a test. */
export const OPERATOR = { operator: 'op-1', reason: 'the fault is mended' } as const;

/** Stores an attempt whose grading died of `message` one second ago. */
export async function storeDeadGrading(mongo: Mongo, message = 'the disk is full'): Promise<Command> {
  const { _id } = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 10 });
  return die(mongo, _id, message);
}

/** Makes a grading dead, as its last attempt would. */
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
