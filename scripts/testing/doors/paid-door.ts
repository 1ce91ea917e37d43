import type { Test } from 'tap';
import type { PreviewDeps } from '#api/classifier/deps.ts';
import { previewGeneration } from '#api/classifier/previews.ts';
import type { Reply } from '#api/route.ts';
import { generationHolds } from '#infra/mongo/classifier/collections.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import type { GenerationPreview } from '#shared/generated/classifier.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { inProcessSettlement } from '#testing/actors/in-process-settlement.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { generationCall, previewDoor, type ScriptedModels, scriptedModels } from './preview-door.ts';

/** Opens a front door with paid generations on its own database. The test scripts the owners and the model. */
export async function paidDoor(t: Test, change: Partial<PreviewDeps> = {}) {
  const [mongo, owners, models] = [await openTestMongo(t), await openFakeOwners(t), scriptedModels()];
  const door = previewDoor(mongo, { owners, models, change });
  const called = (path: string) => owners.calls.filter((call) => call.path.endsWith(path)).length;
  const settlements = () => mailboxOf(mongo, 'settlement').find({ queue: 'settlement' }).toArray();
  const held = async () => (await generationHolds(mongo).findOne({ _id: 'org-1' }))?.holds ?? [];
  return { mongo, owners, models, door, called, settlements, held };
}

/** Opens the same door with a settlement worker, which the door notifies and for which it waits at most `waitMs`. */
export async function doorWithWorker(t: Test, waitMs?: number) {
  const parts = await paidDoor(t);
  const worker = inProcessSettlement(parts.mongo, parts.owners.env, waitMs);
  return { ...parts, worker, door: { ...parts.door, settlementWorker: worker.door } };
}

export async function preview(
  door: PreviewDeps,
  ...call: Parameters<typeof generationCall>
): Promise<GenerationPreview> {
  const reply = await previewGeneration(door, generationCall(...call));
  if (isRejection(reply)) throw new Error(reply.rejected);
  return reply.data as GenerationPreview;
}

/** Returns the status of a reply, or the code of a refusal. */
export const wordOf = (reply: Awaited<ReturnType<typeof previewGeneration>>) =>
  isRejection(reply) ? reply.rejected : (reply as Reply).status;

/** A model call that never answers; it rejects when its signal aborts. */
export const hangs: NonNullable<ScriptedModels['script']> = (_task, signal) =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });
