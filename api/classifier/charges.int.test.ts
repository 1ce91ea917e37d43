import t, { type Test } from 'tap';
import type { PreviewDeps } from '#api/classifier/deps.ts';
import { generationHolds, generations } from '#infra/mongo/classifier/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { claimCommand } from '#infra/mongo/mailbox/claim.ts';
import { deadGroups } from '#infra/mongo/mailbox/dead-groups.ts';
import { mailboxOf, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { settlementCommand, settlementOrder } from '#shared/classifier/commands.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { HOUR, MINUTE, SECOND } from '#shared/kernel/time.ts';
import { crowd } from '#testing/clients/call.ts';
import {
  doorWithWorker,
  generationCall,
  inProcessSettlement,
  paidDoor,
  preview,
  previewDoor,
  scriptedModels,
  wordOf,
} from '#testing/doors/preview-door.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { ageGeneration, expireGenerations } from '#testing/stored/stored-model-work.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { gate, until } from '#testing/until.ts';
import { previewGeneration } from './previews.ts';

const BOTH = [
  ['a front door', paidDoor],
  ['the worker', doorWithWorker],
] as const;

const PENDING = 'AI_SETTLEMENT_PENDING';
const hasty = (door: PreviewDeps) => ({ ...door, timing: { ...door.timing, waitMs: 1 } });

/** Returns a scene in which one answer is stored and the wallet refuses its debit. */
async function unpaid<Scene extends Awaited<ReturnType<typeof paidDoor>>>(t: Test, open: (t: Test) => Promise<Scene>) {
  const scene = await open(t);
  const { door, mongo, owners } = scene;
  owners.fault = ({ path }) => (path.endsWith('/transactions') ? 'away' : undefined);
  const worker = door.settlementWorker && { ...door.settlementWorker, waitMs: 1 };
  t.equal(wordOf(await previewGeneration({ ...door, settlementWorker: worker }, generationCall())), PENDING);
  const row = await generations(mongo).findOne({ epoch: 1 });
  if (row === null || row.commandId === null) throw new Error('no answer is stored');
  const { commandId } = row;
  const settlement = settlementCommand({ ...row, commandId });
  const command = () => readCommand(mongo, settlement);
  // The door did not wait for the attempt of the worker.
  await until('no process is settling', async () => {
    const now = await command();
    return now?.lockedUntil === null && now.attempts === 1;
  });
  owners.fault = null;
  return {
    ...scene,
    previewId: row._id,
    commandId,
    settlement,
    command,
    row: () => generations(mongo).findOne({ _id: row._id }),
  };
}

const sharedMongo = await openTestMongo(t);
const sharedOwners = await openFakeOwners(t);

for (const [settler, open] of BOTH) {
  t.test(`a request waits for a debit that ${settler} began before the end of the day`, async (t) => {
    const scene = await open(t);
    const { mongo, door, owners, models, called } = scene;
    const go = gate();
    owners.pause = ({ path }) => (path.endsWith('/transactions') ? go.opened : undefined);
    const first = preview(door);
    await until('the wallet hangs', () => called('/transactions') === 1);
    await generations(mongo).updateMany({}, { $set: { replayUntil: new Date(Date.now() - 1) } });
    t.equal(wordOf(await previewGeneration(hasty(door), generationCall())), 'AI_GENERATION_IN_PROGRESS');
    let reads = 0;
    const db = tappedDb(mongo, (_method, name, collection) => {
      if (name === 'findOne' && collection === 'ai_generations') reads += 1;
      return undefined;
    });
    const second = preview({ ...door, mongo: { ...mongo, db } });
    await until('the equal request waits', () => reads > 2);
    go.open();
    t.strictSame(await second, await first, 'both get the answer that is paid for');
    t.equal(models.asked.length, 1);
    t.match([...owners.ledger.debits.values()], [{ amount: 6, times: 1 }]);
    const rows = await generations(mongo).find().toArray();
    t.match(rows, [{ state: 'SETTLED', epoch: 1 }]);
    t.ok((rows[0]?.replayUntil?.getTime() ?? 0) > Date.now() + 23 * HOUR, 'a day from now on');
  });

  t.test(
    `a request after the day closes the answer that ${settler} could not settle, and is charged anew`,
    async (t) => {
      const { mongo, door, owners, previewId, commandId, command, row, held } = await unpaid(t, open);
      await ageGeneration(mongo, previewId);
      const before = await command();
      const again = await preview(door);
      t.not(again.previewId, previewId);
      t.match([...owners.ledger.debits], [[`ai-generation:${again.previewId}:debit`, { times: 1 }]]);
      const closed = await row();
      t.match(closed, { state: 'PENDING', closed: 'SUPERSEDED', idleSince: null });
      t.match(await command(), {
        status: 'DEAD',
        fence: Number(before?.fence) + 1,
        lockedUntil: null,
        settledAt: Date,
        lastError: { message: /24 hours/ },
      });
      t.match((await deadGroups(mongo)).groups, [{ queue: 'settlement', count: 1, example: commandId }]);
      t.strictSame(await held(), [], 'nothing is held for it any longer');
      t.strictSame(await preview(door), again);
    },
  );

  t.test(`of many requests after the day of an answer unpaid by ${settler}, one is charged anew`, async (t) => {
    const { mongo, door, owners, models, previewId } = await unpaid(t, open);
    await ageGeneration(mongo, previewId);
    const other = previewDoor(mongo, { owners, models });
    const answered = await crowd(12, 12, (n) => preview(n % 2 === 0 ? door : other));
    t.equal(new Set(answered.map((reply) => JSON.stringify(reply))).size, 1);
    t.equal(models.asked.length, 2);
    t.match([...owners.ledger.debits.values()], [{ amount: 6, times: 1 }]);
    t.strictSame((await generations(mongo).find().toArray()).map(({ epoch }) => epoch).sort(), [1, 2]);
  });

  t.test(`a door whose clock is ahead opens no second generation beside that of ${settler}`, async (t) => {
    const { mongo, door, owners, models, previewId } = await unpaid(t, open);
    await generations(mongo).updateMany({}, { $set: { replayUntil: new Date(Date.now() + MINUTE) } });
    const ahead = { ...hasty(door), now: () => Date.now() + 2 * MINUTE };
    t.equal(wordOf(await previewGeneration(ahead, generationCall())), 'AI_GENERATION_IN_PROGRESS');
    t.equal(await generations(mongo).countDocuments({}), 1);
    t.equal((await preview(door)).previewId, previewId);
    t.equal(wordOf(await previewGeneration(ahead, generationCall())), 200);
    t.equal(models.asked.length, 1);
    t.match([...owners.ledger.debits.values()], [{ times: 1 }]);
  });

  t.test(`a door whose clock is behind does not charge the overdue answer that ${settler} left`, async (t) => {
    const { mongo, door, owners, previewId } = await unpaid(t, open);
    await ageGeneration(mongo, previewId);
    await expireGenerations(mongo);
    const behind = { ...door, now: () => Date.now() - 10 * SECOND };
    const words = [];
    for (let n = 0; n < 2; n++) words.push(wordOf(await previewGeneration(behind, generationCall())));
    t.equal(words[1], 200, 'at the latest when the request is repeated');
    t.equal(owners.ledger.debits.has(`ai-generation:${previewId}:debit`), false);
    t.equal(owners.ledger.debits.size, 1);
  });
}

t.test('a paid answer is replayed to the end of its day by the clock of MongoDB', async (t) => {
  const { mongo, door, owners } = await paidDoor(t);
  const first = await preview(door);
  await generations(mongo).updateMany({}, { $set: { replayUntil: new Date(Date.now() + MINUTE) } });
  const ahead = { ...hasty(door), now: () => Date.now() + 2 * MINUTE };
  t.equal(wordOf(await previewGeneration(ahead, generationCall())), 'AI_GENERATION_IN_PROGRESS');
  t.strictSame(await preview(door), first);
  t.equal(owners.ledger.debits.size, 1);
});

t.test('while a worker runs its settlement, an overdue answer is not closed', async (t) => {
  const { mongo, door, owners, previewId, commandId, settlement, command } = await unpaid(t, paidDoor);
  await mailboxOf(mongo, 'settlement').updateOne({ _id: commandId }, { $set: { nextRunAt: new Date(0) } });
  t.match(await claimCommand(mongo, settlement, { workerId: 'w-1', leaseMs: HOUR }), { kind: 'claimed' });
  await ageGeneration(mongo, previewId);
  t.equal(wordOf(await previewGeneration(hasty(door), generationCall())), 'AI_GENERATION_IN_PROGRESS');
  t.match(await command(), { status: 'PENDING', workerId: 'w-1' });
  t.match(await generations(mongo).find().toArray(), [{ epoch: 1, state: 'PENDING', replayUntil: Date }]);
  const over = { $set: { lockedUntil: new Date(0), nextRunAt: new Date(0) } };
  await mailboxOf(mongo, 'settlement').updateOne({ _id: commandId }, over);
  t.not((await preview(door)).previewId, previewId, 'a killed worker delays it until its lease is over');
  t.match(await command(), { status: 'DEAD' });
  t.equal(owners.ledger.debits.size, 1);
});

t.test('a worker that wakes after its answer was closed writes nothing, and its command stays dead', async (t) => {
  const scene = await unpaid(t, (t) => doorWithWorker(t));
  const { mongo, door, owners, worker, called, previewId, commandId, settlement, command, row } = scene;
  const go = gate();
  const calls = called('/transactions');
  owners.pause = ({ path, body }) =>
    path.endsWith('/transactions') && body.idempotencyKey.includes(previewId) ? go.opened : undefined;
  await mailboxOf(mongo, 'settlement').updateOne({ _id: commandId }, { $set: { nextRunAt: new Date(0) } });
  const paused = worker.run(settlement);
  await until('its debit hangs', () => called('/transactions') > calls);
  const over = { $set: { lockedUntil: new Date(0), nextRunAt: new Date(0) } };
  await mailboxOf(mongo, 'settlement').updateOne({ _id: commandId }, over);
  await expireGenerations(mongo);
  await ageGeneration(mongo, previewId);
  const again = await preview(door);
  t.not(again.previewId, previewId);
  go.open();
  await paused;
  t.ok(worker.results.includes('fenced'), worker.results.join());
  t.match(await command(), { status: 'DEAD', lockedUntil: null });
  t.match(await row(), { state: 'PENDING', closed: 'SUPERSEDED', settledAt: null });
  t.strictSame(await preview(door), again);
});

/** More write and call points than closing and opening have. */
const CLOSING_POINTS = 15;

for (const mode of ['door', 'worker'] as const) {
  for (const when of ['before', 'after'] as const) {
    t.test(`a door killed ${when} any write while it closes an overdue answer, settled by the ${mode}`, async (t) => {
      const [mongo, owners] = [await openTestMongo(t), await openFakeOwners(t)];
      const deaths: string[] = [];
      for (let point = 1; point < CLOSING_POINTS; point++) {
        const organizationId = `org-${point}`;
        const call = (stop?: AbortSignal) =>
          generationCall({}, { organizationId, ...(stop && { stop, signal: stop }) });
        const models = scriptedModels();
        const worker = inProcessSettlement(mongo, owners.env);
        worker.asleep = true;
        const open = (on: Mongo = mongo, waitMs = 1) =>
          previewDoor(on, {
            owners,
            models,
            change: { settlementWorker: mode === 'door' ? null : { ...worker.door, waitMs } },
          });
        owners.fault = ({ path }) => (path.endsWith('/transactions') ? 'away' : undefined);
        t.equal(wordOf(await previewGeneration(open(), call())), PENDING);
        owners.fault = null;
        const old = await generations(mongo).findOne({ organizationId });
        const oldId = old?._id ?? '';
        await ageGeneration(mongo, oldId);

        const victim = dyingProcess(mongo, point, when);
        await victim.live(() => previewGeneration(open(victim.mongo), call(victim.stop))).catch(() => undefined);
        const about = `died ${victim.diedAt()}, point ${point}`;
        const key = settlementOrder({ _id: oldId, key: '' }).key;
        const [row, command, newer] = await Promise.all([
          generations(mongo).findOne({ _id: oldId }),
          mailboxOf(mongo, 'settlement').findOne({ key }),
          generations(mongo).findOne({ organizationId, epoch: 2 }),
        ]);
        const isClosed = newer !== null;
        t.equal(row?.closed === 'SUPERSEDED', isClosed, `${about}: closed together with the newer row`);
        t.equal(command?.status === 'DEAD', isClosed, `${about}: and the command is dead with it`);

        await expireGenerations(mongo);
        worker.asleep = false;
        const reply = await previewGeneration(open(mongo, 60_000), call());
        if (isRejection(reply)) throw new Error(`${about}: ${reply.rejected}`);
        const { previewId } = reply.data as { previewId: string };
        t.not(previewId, oldId, about);
        const debits = [...owners.ledger.debits].filter(([, debit]) => debit.organizationId === organizationId);
        t.match(debits, [[`ai-generation:${previewId}:debit`, { amount: 6 }]], `${about}: one debit`);
        t.match(await mailboxOf(mongo, 'settlement').findOne({ key }), { status: 'DEAD' }, about);
        t.strictSame((await generationHolds(mongo).findOne({ _id: organizationId }))?.holds, [], about);
        deaths.push(`${victim.diedAt()}`);
        if (isClosed) break;
      }
      t.comment(deaths.join(', '));
      t.ok(deaths.length >= 5, `died at ${deaths.length} points`);
    });
  }
}
/** More write and call points than a generation has. */
const GENERATION_POINTS = 60;

/** Settler of the dying door's answer: the door itself or the worker. */
type Mode = 'door' | 'worker';

/**
 * Lets a door die at one point of a generation. Then its leases expire, the worker (if there is one) polls, and another door
 * receives the same request. Returns where the first door died, or null if it finished.
 */
async function dieAndAskAgain(t: Test, mode: Mode, point: number, when: 'before' | 'after'): Promise<string | null> {
  const organizationId = `org-${mode}-${when}-${point}`;
  // The places of a killed door's previews are free after a minute only, so each death has an actor of its own.
  const call = (stop?: AbortSignal) =>
    generationCall(
      {},
      { organizationId, actorId: `teacher-of-${organizationId}`, ...(stop && { stop, signal: stop }) },
    );
  const models = scriptedModels();
  const worker = inProcessSettlement(sharedMongo, sharedOwners.env);
  const settlementWorker = mode === 'door' ? null : worker.door;
  const victim = dyingProcess(sharedMongo, point, when);
  // The worker is another process: no part of it may run inside the dying one.
  worker.asleep = true;
  const change = { settlementWorker: settlementWorker && { ...settlementWorker, waitMs: 1 } };
  const door = previewDoor(victim.mongo, { owners: sharedOwners, models, change });
  const died = await victim.live(() => previewGeneration(door, call(victim.stop))).catch((error: unknown) => error);
  const about = `died ${victim.diedAt()}, point ${point}`;
  if (victim.diedAt() === null)
    t.match(died, mode === 'door' ? { status: 200 } : { rejected: 'AI_SETTLEMENT_PENDING' });

  await expireGenerations(sharedMongo);
  worker.asleep = false;
  const owed = await generations(sharedMongo).findOne({ organizationId, state: 'PENDING' });
  if (mode === 'worker' && point % 2 === 0 && owed !== null) {
    await worker.run(settlementCommand({ _id: owed._id, commandId: owed.commandId ?? '' }));
  }
  const reply = await previewGeneration(
    previewDoor(sharedMongo, { owners: sharedOwners, models, change: { settlementWorker } }),
    call(),
  );
  if (isRejection(reply)) throw new Error(`${about}: ${reply.rejected}`);
  const { previewId } = reply.data as { previewId: string };
  if (owed !== null) t.equal(previewId, owed._id, `${about}: the stored answer is not lost`);
  const debits = [...sharedOwners.ledger.debits].filter(([, debit]) => debit.organizationId === organizationId);
  t.match(
    debits,
    [[`ai-generation:${previewId}:debit`, { amount: 6 }]],
    `${about}: one debit, the one that was answered`,
  );
  t.ok(sharedOwners.ledger.consumed.has(`ai-generation:${previewId}:usage`), about);
  const rows = await generations(sharedMongo).find({ organizationId, state: 'SETTLED' }).toArray();
  t.match(rows, [{ _id: previewId }], `${about}: settled once`);
  t.ok(models.asked.length <= 2, `${about}: asked ${models.asked.length} times`);
  t.strictSame(
    (await generationHolds(sharedMongo).findOne({ _id: organizationId }))?.holds,
    [],
    `${about}: nothing is held`,
  );
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
        for (let point = 1; point < GENERATION_POINTS; point++) {
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
