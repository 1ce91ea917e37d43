import { generations } from '#infra/mongo/classifier/collections.ts';
import { openGeneration } from '#infra/mongo/classifier/generation-epochs.ts';
import { addHold } from '#infra/mongo/classifier/generation-holds.ts';
import { storeReplay } from '#infra/mongo/classifier/generations.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { settlementOrder } from '#shared/classifier/commands.ts';
import { chargeOf, estimateOf } from '#shared/classifier/generation.ts';
import type { TaskResult } from '#shared/classifier/tasks/envelope.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';

function sampleResult(previewId: string): TaskResult<'generate'> {
  const essay = { type: 'ESSAY' as const, content: 'Sông', contentText: 'Sông', options: [], answerKey: {} };
  const question = { ...essay, explanation: 'Nước', difficulty: 'easy' };
  return {
    taskId: previewId,
    kind: 'generate',
    provider: 'mock',
    model: 'mock-1',
    finishedAt: new Date().toISOString(),
    usage: { inputTokens: 10, outputTokens: 20 },
    generate: { questions: ['q1', 'q2'].map((tempId) => ({ tempId, ...question })) },
  };
}

/** Stores an unpaid generation that has an answer and no holder. Returns the command that settles it, due one second ago by default. */
export async function postSettlement(
  mongo: Mongo,
  options: { organizationId?: string; maxAttempts?: number; runAt?: number } = {},
): Promise<Command> {
  const now = Date.now();
  const _id = newId(now);
  const { organizationId = `org-${_id}`, maxAttempts = 10, runAt = now - 1_000 } = options;
  const actor = { id: 'teacher-1', role: 'TEACHER' };
  const opened = await openGeneration(mongo, { _id, key: _id, epoch: 1, organizationId, actor, now, leaseMs: 60_000 });
  if (opened.kind !== 'held') throw new Error('a generation with a new id exists already');
  const { held } = opened;
  const leaseMs = 60_000;
  await addHold(mongo, { _id, organizationId, fence: held.fence }, { ...estimateOf(2), leaseMs });
  const result = sampleResult(_id);
  const charge = chargeOf({ asked: 2, returned: 2, usage: result.usage });
  await storeReplay(mongo, held, { result: JSON.stringify(result), charge, now });
  const key = settlementOrder(held.row).key;
  await mailboxOf(mongo, 'settlement').updateOne(
    { key, live: true },
    { $set: { maxAttempts, nextRunAt: new Date(runAt) } },
  );
  return (await mailboxOf(mongo, 'settlement').findOne({ key, live: true })) as Command;
}

/** Expires the leases of all unsettled generations and of their settlement commands, as time would. */
export async function expireGenerations(mongo: Mongo): Promise<void> {
  const past = new Date(0);
  await generations(mongo).updateMany({ state: { $ne: 'SETTLED' } }, { $set: { leaseUntil: past } });
  const leased = { queue: 'settlement', lockedUntil: { $gt: past } } as const;
  await mailboxOf(mongo, 'settlement').updateMany(leased, { $set: { lockedUntil: past, nextRunAt: past } });
}

/** Ends the replay of a generation, as a day would: an equal request starts a new generation. */
export async function ageGeneration(mongo: Mongo, previewId: string): Promise<void> {
  await generations(mongo).updateOne({ _id: previewId }, { $set: { replayUntil: new Date(Date.now() - 1) } });
}

export async function generationOf(mongo: Mongo, { subject }: Pick<Command, 'subject'>) {
  const row = await generations(mongo).findOne({ _id: subject });
  if (row === null) throw new Error(`generation ${subject} is gone`);
  return row;
}
