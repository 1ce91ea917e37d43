import t, { type Test } from 'tap';
import { generationHolds, generations } from '#infra/mongo/classifier/collections.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { generationCall, previewDoor, scriptedModels } from '#testing/doors/preview-door.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { expireGenerations } from '#testing/stored/stored-generations.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { previewGeneration } from './previews.ts';

const mongo = await openTestMongo(t);
const owners = await openFakeOwners(t);
/** More than a generation has. */
const MOST_POINTS = 60;

/** A door dies at one point of a generation and another one is sent the same. Where the first died; null = it came through. */
async function dieAndAskAgain(t: Test, point: number, when: 'before' | 'after'): Promise<string | null> {
  const organizationId = `org-${when}-${point}`;
  const call = () => generationCall({}, { organizationId });
  const models = scriptedModels();
  const victim = dyingProcess(mongo, point, when);
  const door = previewDoor(victim.mongo, { owners, models });
  const died = await victim.live(() => previewGeneration(door, call())).catch((error: unknown) => error);
  const about = `died ${victim.diedAt()}, point ${point}`;
  if (victim.diedAt() === null) t.match(died, { status: 200 });

  // Its leases run out.
  await expireGenerations(mongo);
  const reply = await previewGeneration(previewDoor(mongo, { owners, models }), call());
  if (isRejection(reply)) throw new Error(`${about}: ${reply.rejected}`);
  const { previewId } = reply.data as { previewId: string };
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

for (const when of ['before', 'after'] as const) {
  t.test(`a door that dies at any write or call, ${when} it is made, charges once`, async (t) => {
    const deaths: string[] = [];
    for (let point = 1; point < MOST_POINTS; point++) {
      const diedAt = await dieAndAskAgain(t, point, when);
      if (diedAt === null) break;
      deaths.push(diedAt);
    }
    t.comment(deaths.join(', '));
    t.equal(deaths.filter((death) => death.endsWith('fetch')).length, 4, 'two questions, two charges');
    t.ok(deaths.length >= 15, `died at ${deaths.length} points`);
  });
}
