import t from 'tap';
import { generations } from '#infra/mongo/classifier/collections.ts';
import { closeOverdueSettlement, overdueSettlements } from '#infra/mongo/classifier/unpaid-generations.ts';
import { claimCommand } from '#infra/mongo/mailbox/claim.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { deadGroups } from '#infra/mongo/mailbox/dead-groups.ts';
import { mailboxOf, postCommand, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { UNPAID_GENERATIONS_SWEEP } from '#shared/classifier/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import { DAY, HOUR, MINUTE } from '#shared/kernel/time.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { ageGeneration, expireGenerations, generationOf, postSettlement } from '#testing/stored/stored-generations.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';

/** Stores an unpaid generation whose day is over, and whose command no worker has claimed since. */
async function storeUnpaid(mongo: TestMongo, change: Partial<Pick<Command, 'nextRunAt' | 'replays'>> = {}) {
  const command = await postSettlement(mongo);
  await expireGenerations(mongo);
  await ageGeneration(mongo, command.subject);
  const old = { createdAt: new Date(Date.now() - DAY - HOUR), nextRunAt: new Date(Date.now() - DAY), ...change };
  await mailboxOf(mongo, 'settlement').updateOne({ _id: command._id }, { $set: old });
  return command;
}

/** Returns a settlement as the list of overdue ones names it. */
function overdueOf(settlement: Command) {
  const { _id, key, subject } = settlement;
  return { command: { _id, queue: 'settlement', key }, previewId: subject } as const;
}

async function sweep(mongo: TestMongo) {
  const deps = testWorkerDeps(mongo);
  const wanted = newCommand({ ...UNPAID_GENERATIONS_SWEEP, body: {}, maxAttempts: 3, now: Date.now() - 1_000 });
  const { command } = await postCommand(mongo, wanted);
  await mailboxOf(mongo, 'upkeep').updateOne({ _id: command._id }, { $set: { nextRunAt: new Date(0) } });
  const result = await runCommand(testKernel(mongo), makeActor('upkeep', deps), command);
  return { result, errors: deps.log.lines.filter(({ level }) => level === 'error') };
}

t.test('without a settlement worker, an answer that was never paid for becomes a dead letter', async (t) => {
  const mongo = await openTestMongo(t);
  const unpaid = await storeUnpaid(mongo);
  const young = await postSettlement(mongo);
  const { result, errors } = await sweep(mongo);
  t.equal(result, 'snoozed');
  t.match(await readCommand(mongo, unpaid), {
    status: 'DEAD',
    settledAt: Date,
    lastError: { fingerprint: 'Unsettled', message: /24 hours/ },
  });
  t.match(await generationOf(mongo, unpaid), { state: 'PENDING', closed: 'EXPIRED', settledAt: null });
  t.match((await deadGroups(mongo)).groups, [{ queue: 'settlement', count: 1, example: unpaid._id }]);
  t.match(await readCommand(mongo, young), { status: 'PENDING' });
  t.match(errors, [{ fields: { commandId: unpaid._id, queue: 'settlement', subject: unpaid.subject } }]);
  t.strictSame((await sweep(mongo)).errors, [], 'it is dead once');
});

t.test('a settlement that a process may still end is left alone', async (t) => {
  const mongo = await openTestMongo(t);
  const soon = await storeUnpaid(mongo, { nextRunAt: new Date(Date.now() + MINUTE) });
  const replayed = await storeUnpaid(mongo, { replays: 1 });
  const claimed = await storeUnpaid(mongo);
  t.match(await claimCommand(mongo, claimed, { workerId: 'w-1', leaseMs: HOUR }), { kind: 'claimed' });
  const [held, early] = [await storeUnpaid(mongo), await storeUnpaid(mongo)];
  const inAnHour = new Date(Date.now() + HOUR);
  await generations(mongo).updateOne({ _id: held.subject }, { $set: { leaseUntil: inAnHour } });
  await generations(mongo).updateOne({ _id: early.subject }, { $set: { replayUntil: inAnHour } });
  t.strictSame((await sweep(mongo)).errors, []);
  for (const [name, command] of Object.entries({ soon, replayed, claimed, held, early })) {
    t.match(await readCommand(mongo, command), { status: 'PENDING' }, name);
    t.match(await generationOf(mongo, command), { state: 'PENDING', closed: null }, name);
  }
  // The list was read before a worker claimed the command.
  const overdue = overdueOf(claimed);
  t.equal(await closeOverdueSettlement(mongo, overdue), 'in use');
  t.match(await generationOf(mongo, claimed), { closed: null }, 'the transaction is aborted as a whole');
});

t.test('a settlement whose answer is paid for becomes DONE', async (t) => {
  const mongo = await openTestMongo(t);
  const unpaid = await storeUnpaid(mongo);
  const { subject } = unpaid;
  const paid = { state: 'SETTLED', settledAt: new Date(), usageConsumed: true } as const;
  await generations(mongo).updateOne({ _id: subject }, { $set: paid });
  t.strictSame((await sweep(mongo)).errors, []);
  t.match(await readCommand(mongo, unpaid), { status: 'DONE', result: { settledBy: 'front door' } });
  t.match(await generations(mongo).findOne({ _id: subject }), { state: 'SETTLED', closed: null });
});

for (const when of ['before', 'after'] as const) {
  t.test(`a worker killed ${when} any write of the sweep leaves both open or both closed`, async (t) => {
    const mongo = await openTestMongo(t);
    let died = 0;
    for (let point = 1; point < 10; point++) {
      const unpaid = await storeUnpaid(mongo);
      const victim = dyingProcess(mongo, point, when);
      const overdue = overdueOf(unpaid);
      await victim.live(() => closeOverdueSettlement(victim.mongo, overdue)).catch(() => undefined);
      const [row, command] = [await generationOf(mongo, unpaid), await readCommand(mongo, unpaid)];
      t.equal(row.closed === 'EXPIRED', command?.status === 'DEAD', `point ${point}, ${victim.diedAt()}`);
      await closeOverdueSettlement(mongo, overdue);
      t.match(await readCommand(mongo, unpaid), { status: 'DEAD' });
      if (victim.diedAt() === null) break;
      died += 1;
    }
    t.ok(died >= 2, `died at ${died} points`);
  });
}

t.test('a sweep reads a bounded list, and what waits longest comes first', async (t) => {
  const mongo = await openTestMongo(t);
  const ages = [2 * DAY, 4 * DAY, 3 * DAY];
  const ids = [];
  for (const age of ages) ids.push((await storeUnpaid(mongo, { nextRunAt: new Date(Date.now() - age) }))._id);
  const listed = await overdueSettlements(mongo, Date.now(), 2);
  t.strictSame(
    listed.map(({ command }) => command._id),
    [ids[1], ids[2]],
  );
});
