import t, { type Test } from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { endIdleCommand } from '#infra/mongo/mailbox/settle.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { settlementCommand } from '#shared/classifier/commands.ts';
import { type AnsweredGeneration, REPLAY_MS } from '#shared/classifier/generation.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { DAY, HOUR, MINUTE } from '#shared/kernel/time.ts';
import { ageGeneration, expireGenerations, generationOf, postSettlement } from '#testing/stored/stored-model-work.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { generationHolds, generations, previewLeases } from './collections.ts';
import { isSuperseded, openGeneration } from './generation-epochs.ts';
import { addHold, convertHold, readHoldsAhead, renewHold } from './generation-holds.ts';
import {
  acquireGeneration,
  findGeneration,
  findOrClose,
  markSettled,
  releaseGeneration,
  renewGeneration,
} from './generations.ts';
import { leasePreview, releasePreview, renewPreview } from './in-flight.ts';
import { closeOverdueSettlement, overdueSettlements } from './unpaid-generations.ts';

const mongo = await openTestMongo(t);

t.test('only its holder renews a lease, and not after the release of the row', async (t) => {
  const [_id, now] = ['preview-1', Date.now()];
  const named = { _id, key: 'key-1' };
  const wanted = { ...named, epoch: 1, organizationId: 'org-1', actor: { id: 'an', role: 'TEACHER' } };
  const opened = await openGeneration(mongo, { ...wanted, now, leaseMs: -1 });
  const second = await acquireGeneration(mongo, named, 60_000);
  if (opened.kind !== 'held' || second === null) throw new Error('the row was not free');
  const first = opened.held;
  const leaseUntil = async () => (await findGeneration(mongo, named))?.leaseUntil.getTime() ?? 0;

  const held = await leaseUntil();
  await renewGeneration(mongo, first, HOUR);
  t.equal(await leaseUntil(), held);
  await renewGeneration(mongo, second, HOUR);
  t.ok((await leaseUntil()) > held);
  await releaseGeneration(mongo, second, null);
  const free = await leaseUntil();
  await renewGeneration(mongo, second, HOUR);
  t.equal(await leaseUntil(), free);
});

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
  t.match(await findGeneration(mongo, row), { closed: 'SUPERSEDED', fence: row.fence });
  const found = await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, (session) => findOrClose(mongo, row, session));
  t.match(found, { closed: 'SUPERSEDED' }, 'a later run does not change why');
  t.equal(await acquireGeneration(mongo, row, 60_000), null, 'its answer is not made again');
});

t.test('an epoch is not opened while the row before it is charged or its day lasts', async (t) => {
  const { row, settlement, open } = await overdue();
  const set = (change: Partial<AnsweredGeneration>) => generations(mongo).updateOne({ _id: row._id }, { $set: change });
  const command = (await settlement()) as CommandRef;
  const lease = (lockedUntil: Date | null) =>
    mailboxOf(mongo, 'settlement').updateOne({ _id: command._id }, { $set: { lockedUntil } });
  await lease(new Date(Date.now() + HOUR));
  t.strictSame(await open(), { kind: 'busy' });
  await lease(null);
  await set({ replayUntil: new Date(Date.now() + HOUR) });
  t.strictSame(await open(), { kind: 'busy' });
  t.match(await findGeneration(mongo, row), { closed: null, fence: row.fence });
  t.equal(await generations(mongo).countDocuments({ key: row.key }), 1);
});

t.test('the end of a settled answer changes nothing about its command', async (t) => {
  const { row, settlement, open } = await overdue();
  await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    const end = { to: 'DONE', result: { settledBy: 'worker' } } as const;
    await endIdleCommand(mongo, settlementCommand(row), end, session);
    await markSettled(mongo, row, session);
  });
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

const LEASE_MS = MINUTE / 2;
const FIRST = { _id: 'preview-1', organizationId: 'org-1', fence: 3 };
const SECOND = { _id: 'preview-2', organizationId: 'org-1', fence: 1 };
const ESTIMATE = { credits: 12, tokens: 4_000, leaseMs: LEASE_MS };
const COST = { credits: 6, tokens: 70 };

/** Opens a database with the holds of two previews of one organization. */
async function openHolds(t: Test) {
  const mongo = await openTestMongo(t);
  await addHold(mongo, FIRST, ESTIMATE);
  await addHold(mongo, SECOND, ESTIMATE);
  return {
    mongo,
    keep: () => inTransaction(mongo, FRONT_DOOR_BUDGET_MS, (session) => convertHold(mongo, FIRST, COST, session)),
    line: async () => (await generationHolds(mongo).findOne({ _id: 'org-1' }))?.holds ?? [],
    before: (now = Date.now()) => readHoldsAhead(mongo, SECOND, now),
  };
}

t.test('a price that is owed stays held for a day, even if its maker still renews the hold', async (t) => {
  const { mongo, keep, line, before } = await openHolds(t);
  await keep();
  t.match(await line(), [{ ...COST, previewId: 'preview-1', fence: 3 }, { previewId: 'preview-2' }], 'in its place');
  await renewHold(mongo, FIRST, LEASE_MS);
  t.strictSame(await before(Date.now() + 23 * HOUR), { balance: COST.credits, usage: COST });
});

t.test('a hold that expired before its answer arrived is added again with the answer, once', async (t) => {
  const { mongo, keep, line } = await openHolds(t);
  await generationHolds(mongo).updateOne({ _id: 'org-1' }, { $set: { 'holds.0.until': new Date(0) } });
  await addHold(mongo, { ...SECOND, _id: 'preview-3' }, ESTIMATE);
  t.strictSame(
    (await line()).map(({ previewId }) => previewId),
    ['preview-2', 'preview-3'],
  );
  for (const time of ['first', 'second']) {
    await keep();
    t.match(await line(), [{}, {}, { ...COST, previewId: 'preview-1', fence: 3 }], time);
    t.equal((await line()).length, 3);
  }
});

t.test('renewing extends the hold of a generation that is being made', async (t) => {
  const { mongo, before } = await openHolds(t);
  await renewHold(mongo, FIRST, HOUR);
  t.match(await before(Date.now() + HOUR / 2), { balance: 12, usage: { credits: 12 } });
});

/** Ends an overdue settlement while an erasure replaces the key of its generation. */
async function closeDuringErasure(on: Mongo, previewId: string) {
  let times = 0;
  const db = tappedDb(on, (method, name, collection) => {
    if (name !== 'findOneAndUpdate' || collection !== generations(on).collectionName) return undefined;
    return async (...args) => {
      times += 1;
      if (times === 1) await generations(on).updateOne({ _id: previewId }, { $set: { key: `erased:${previewId}` } });
      return method(...args);
    };
  });
  const [overdue] = await overdueSettlements(on, Date.now() + REPLAY_MS + DAY, 1);
  if (overdue === undefined) throw new Error('no settlement is overdue');
  return closeOverdueSettlement({ ...on, db }, overdue);
}

t.test('a paid settlement never becomes dead, while an erasure replaces the key of its generation', async (t) => {
  const mongo = await openTestMongo(t);
  const command = await postSettlement(mongo);
  await generations(mongo).updateOne({ _id: command.subject }, { $set: { state: 'SETTLED' } });
  t.equal(await closeDuringErasure(mongo, command.subject), 'in use');
  t.match(await mailboxOf(mongo, 'settlement').findOne({ _id: command._id }), { status: 'PENDING' });
});

t.test('an unpaid answer is closed under its new key, together with its command', async (t) => {
  const mongo = await openTestMongo(t);
  const command = await postSettlement(mongo);
  await expireGenerations(mongo);
  await ageGeneration(mongo, command.subject);
  t.equal(await closeDuringErasure(mongo, command.subject), 'dead');
  t.match(await generationOf(mongo, command), { closed: 'EXPIRED', key: `erased:${command.subject}` });
});

t.test('requests at the same time exceed no limit, and each release frees one place', async (t) => {
  const mongo = await openTestMongo(t);
  const lease = (leaseId: string, actorId = 'an') =>
    leasePreview(mongo, { actorId, leaseId }, { limit: 4, leaseMs: MINUTE, now: Date.now() });
  const results = await Promise.all(Array.from({ length: 12 }, (_, n) => lease(`preview-${n}`)));
  t.equal(results.filter(({ kind }) => kind === 'leased').length, 4);
  t.match(await lease('other', 'binh'), { kind: 'leased' }, 'another actor is free');

  const held = (await previewLeases(mongo).findOne({ _id: 'an' }))?.leases.map(({ id }) => id) ?? [];
  await releasePreview(mongo, { actorId: 'an', leaseId: held[2] ?? '' });
  t.match(await lease('next'), { kind: 'leased' });
  t.match(await lease('one more'), { kind: 'full' });
  const now = (await previewLeases(mongo).findOne({ _id: 'an' }))?.leases.map(({ id }) => id);
  t.strictSame(now, [held[0], held[1], held[3], 'next']);
});

t.test('the lease of a killed front door ends by itself, a renewed one lasts', async (t) => {
  const mongo = await openTestMongo(t);
  const lease = (leaseId: string) =>
    leasePreview(mongo, { actorId: 'an', leaseId }, { limit: 2, leaseMs: MINUTE, now: Date.now() });
  for (const id of ['killed', 'long']) await lease(id);
  t.match(await lease('third'), { kind: 'full' });
  await previewLeases(mongo).updateOne(
    { _id: 'an' },
    { $set: { 'leases.0.until': new Date(0), 'leases.1.until': new Date(Date.now() + 1_000) } },
  );
  await renewPreview(mongo, { actorId: 'an', leaseId: 'long' }, MINUTE);
  const { leases = [] } = (await previewLeases(mongo).findOne({ _id: 'an' })) ?? {};
  t.ok((leases[1]?.until.getTime() ?? 0) > Date.now() + MINUTE / 2, 'renewed');
  t.match(await lease('third'), { kind: 'leased' });
  t.match(await lease('fourth'), { kind: 'full' });
});
