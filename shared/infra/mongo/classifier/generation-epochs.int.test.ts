import t from 'tap';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { AnsweredGeneration } from '#shared/classifier/generation.ts';
import { newId } from '#shared/kernel/ids.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { ageGeneration, generationOf, postSettlement } from '#testing/stored/stored-generations.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { generations } from './collections.ts';
import { isSuperseded, openGeneration } from './generation-epochs.ts';
import { acquireGeneration, findGeneration, settleAtDoor } from './generations.ts';

const mongo = await openTestMongo(t);

/** Stores an answer whose day is over, and returns how the next epoch of its request is opened. */
async function overdue() {
  const command = await postSettlement(mongo);
  await ageGeneration(mongo, command.subject);
  const row = (await generationOf(mongo, command)) as AnsweredGeneration;
  const { key, organizationId, actor } = row;
  const wanted = () => ({
    _id: newId(Date.now()),
    key,
    epoch: 2,
    organizationId,
    actor,
    now: Date.now(),
    leaseMs: 60_000,
  });
  const settlement = () => readCommand(mongo, command);
  return { row, wanted, settlement, open: () => openGeneration(mongo, wanted(), row) };
}

t.test('an epoch is opened once, and again if its row was deleted without an answer', async (t) => {
  const { row, settlement, open } = await overdue();
  const command = await settlement();
  t.match(await open(), { kind: 'held', deadCommandId: command?._id });
  t.match(await settlement(), { status: 'DEAD', workerId: null, fence: (command?.fence ?? 0) + 1 });
  t.strictSame(await open(), { kind: 'raced' });
  await generations(mongo).deleteOne({ key: row.key, epoch: 2 });
  t.match(await open(), { kind: 'held', deadCommandId: null });
  t.match(await findGeneration(mongo, row), { closed: 'SUPERSEDED', fence: row.fence + 1 }, 'closed once');
  for (const by of ['door', 'worker'] as const) {
    t.strictSame(await acquireGeneration(mongo, row, { by, leaseMs: 60_000 }), { kind: 'superseded' });
    const replayed = { by, leaseMs: 60_000, evenIf: ['EXPIRED'] } as const;
    t.strictSame(await acquireGeneration(mongo, row, replayed), { kind: 'superseded' }, 'nor by a replay alone');
  }
});

t.test('an epoch is not opened while the row before it is held or its day lasts', async (t) => {
  const { row, open } = await overdue();
  const set = (change: Partial<AnsweredGeneration>) => generations(mongo).updateOne({ _id: row._id }, { $set: change });
  await set({ leaseUntil: new Date(Date.now() + HOUR) });
  t.strictSame(await open(), { kind: 'busy' });
  await set({ leaseUntil: new Date(0), replayUntil: new Date(Date.now() + HOUR) });
  t.strictSame(await open(), { kind: 'busy' });
  t.match(await findGeneration(mongo, row), { closed: null, fence: row.fence });
  t.equal(await generations(mongo).countDocuments({ key: row.key }), 1);
});

t.test('the end of a settled answer changes nothing about its command', async (t) => {
  const { row, settlement, open } = await overdue();
  await settleAtDoor(mongo, row);
  const done = await settlement();
  t.match(done, { status: 'DONE' });
  t.strictSame(await open(), { kind: 'busy' }, 'its settlement has begun another day');
  await ageGeneration(mongo, row._id);
  t.match(await open(), { kind: 'held', deadCommandId: null });
  t.strictSame(await settlement(), done);
  t.equal(await isSuperseded(mongo, row._id), false, 'it is paid for');
});

t.test('an unpaid answer counts as superseded once a newer epoch exists', async (t) => {
  const { row, open } = await overdue();
  t.equal(await isSuperseded(mongo, row._id), false);
  t.match(await open(), { kind: 'held' });
  t.equal(await isSuperseded(mongo, row._id), true);
  t.equal(await isSuperseded(mongo, 'unknown'), false);
});
