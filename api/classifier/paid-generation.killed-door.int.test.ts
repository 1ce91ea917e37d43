import t, { type Test } from 'tap';
import { generationHolds, generations } from '#infra/mongo/classifier/collections.ts';
import { settlementCommand } from '#shared/classifier/commands.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { inProcessSettlement } from '#testing/actors/in-process-settlement.ts';
import { generationCall, previewDoor, scriptedModels } from '#testing/doors/preview-door.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { expireGenerations } from '#testing/stored/stored-generations.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { previewGeneration } from './previews.ts';

const mongo = await openTestMongo(t);
const owners = await openFakeOwners(t);
/** More write and call points than a generation has. */
const MAX_POINTS = 60;

/** Settler of the dying door's answer: the door itself or the worker. */
type Mode = 'door' | 'worker';

/**
 * Lets a door die at one point of a generation. Then its leases expire, the worker (if there is one) polls, and another door
 * receives the same request. Returns where the first door died, or null if it finished.
 */
async function dieAndAskAgain(t: Test, mode: Mode, point: number, when: 'before' | 'after'): Promise<string | null> {
  const organizationId = `org-${mode}-${when}-${point}`;
  // The places of a killed door's previews are free after a minute only, so each death has an actor of its own.
  const call = () => generationCall({}, { organizationId, actorId: `teacher-of-${organizationId}` });
  const models = scriptedModels();
  const worker = inProcessSettlement(mongo, owners.env);
  const settlementWorker = mode === 'door' ? null : worker.door;
  const victim = dyingProcess(mongo, point, when);
  // The worker is another process: no part of it may run inside the dying one.
  worker.asleep = true;
  const change = { settlementWorker: settlementWorker && { ...settlementWorker, waitMs: 1 } };
  const door = previewDoor(victim.mongo, { owners, models, change });
  const died = await victim.live(() => previewGeneration(door, call())).catch((error: unknown) => error);
  const about = `died ${victim.diedAt()}, point ${point}`;
  if (victim.diedAt() === null)
    t.match(died, mode === 'door' ? { status: 200 } : { rejected: 'AI_SETTLEMENT_PENDING' });

  await expireGenerations(mongo);
  worker.asleep = false;
  const owed = await generations(mongo).findOne({ organizationId, state: 'PENDING' });
  if (mode === 'worker' && point % 2 === 0 && owed !== null) {
    await worker.run(settlementCommand({ _id: owed._id, commandId: owed.commandId ?? '' }));
  }
  const reply = await previewGeneration(previewDoor(mongo, { owners, models, change: { settlementWorker } }), call());
  if (isRejection(reply)) throw new Error(`${about}: ${reply.rejected}`);
  const { previewId } = reply.data as { previewId: string };
  if (owed !== null) t.equal(previewId, owed._id, `${about}: the stored answer is not lost`);
  const debits = [...owners.ledger.debits].filter(([, debit]) => debit.organizationId === organizationId);
  t.match(
    debits,
    [[`ai-generation:${previewId}:debit`, { amount: 6 }]],
    `${about}: one debit, the one that was answered`,
  );
  t.ok(owners.ledger.consumed.has(`ai-generation:${previewId}:usage`), about);
  const rows = await generations(mongo).find({ organizationId, state: 'SETTLED' }).toArray();
  t.match(rows, [{ _id: previewId }], `${about}: settled once`);
  t.ok(models.asked.length <= 2, `${about}: asked ${models.asked.length} times`);
  t.strictSame((await generationHolds(mongo).findOne({ _id: organizationId }))?.holds, [], `${about}: nothing is held`);
  return victim.diedAt();
}

for (const [mode, calls] of [
  ['door', 4],
  ['worker', 2],
] as const) {
  for (const when of ['before', 'after'] as const) {
    t.test(
      `a door that settles by the ${mode} and dies at any write or call, ${when} it is made, charges once`,
      async (t) => {
        const deaths: string[] = [];
        for (let point = 1; point < MAX_POINTS; point++) {
          const diedAt = await dieAndAskAgain(t, mode, point, when);
          if (diedAt === null) break;
          deaths.push(diedAt);
        }
        t.comment(deaths.join(', '));
        const fetches = deaths.filter((death) => death.endsWith('fetch')).length;
        t.equal(fetches, calls, 'two checks before the model, two charges where it is the door that charges');
        t.ok(deaths.length >= calls + 8, `died at ${deaths.length} points`);
      },
    );
  }
}
