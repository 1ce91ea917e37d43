import t, { type Test } from 'tap';
import { inCausalOrder } from '#infra/mongo/causal-read.ts';
import { generationHolds, generations } from '#infra/mongo/classifier/collections.ts';
import { openGeneration } from '#infra/mongo/classifier/generation-epochs.ts';
import { findOrClose, markConsumed, markSettled } from '#infra/mongo/classifier/generations.ts';
import { Stale } from '#infra/mongo/guarded-update.ts';
import { claimCommand } from '#infra/mongo/mailbox/claim.ts';
import { replayDead } from '#infra/mongo/mailbox/dead-letters.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { settlementCommand } from '#shared/classifier/commands.ts';
import { type OwedGeneration, ownerKeysOf } from '#shared/classifier/generation.ts';
import type { Command } from '#shared/kernel/command.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { type OwnerFault, openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { ageGeneration, expireGenerations, generationOf, postSettlement } from '#testing/stored/stored-model-work.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { queuesOf } from '#workers/actor.ts';
import { runCommand } from '#workers/run-command.ts';
import { settlementActor } from './actor.ts';

const ON = { AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1' };

const settlement = ({ _id: commandId, subject: _id }: Command) => settlementCommand({ _id, commandId });

async function setUp(t: Test) {
  const [mongo, owners] = [await openTestMongo(t), await openFakeOwners(t)];
  const actor = settlementActor(testWorkerDeps(mongo, { ...owners.env, ...ON }));
  const run = (command: Command) => runCommand(testKernel(mongo), actor, command);
  const failAt = (path: string, fault: OwnerFault) => {
    owners.fault = (call) => (call.path.endsWith(path) ? fault : undefined);
  };
  return { mongo, owners, run, failAt };
}

t.test('a settlement continues where the front door ended, with the same keys, at usage and wallet only', async (t) => {
  const { mongo, owners, run, failAt } = await setUp(t);
  const command = await postSettlement(mongo);
  const keys = ownerKeysOf(command.subject);
  failAt('/consume', 'lost');
  t.equal(await run(command), 'retried');
  t.match(await generationOf(mongo, command), { state: 'PENDING', usageConsumed: false });
  await expire(mongo, command);
  failAt('/transactions', 'lost');
  t.equal(await run(command), 'retried');
  t.match(await generationOf(mongo, command), { state: 'PENDING', usageConsumed: true });
  await expire(mongo, command);
  owners.fault = null;
  t.equal(await run(command), 'done');
  t.match(await generationOf(mongo, command), { state: 'SETTLED', settledAt: Date });
  t.strictSame(
    [...owners.ledger.consumed].map(([key, { times }]) => [key, times]),
    [[keys.usage, 2]],
  );
  t.match([...owners.ledger.debits], [[keys.debit, { amount: 6, times: 2 }]]);
  const paths = new Set(owners.calls.map(({ path }) => path.replace(/org-[^/]+/, 'org')));
  t.strictSame([...paths].sort(), ['/v1/usage/consume', '/v1/wallets/org/transactions']);
  t.strictSame((await generationHolds(mongo).findOne())?.holds, []);
});

t.test('a command without the current key of its generation finds it by the id', async (t) => {
  const { mongo, owners, run } = await setUp(t);
  const older = await postSettlement(mongo);
  await mailboxOf(mongo, 'settlement').updateOne({ _id: older._id }, { $unset: { 'body.key': '' } });
  const erased = await postSettlement(mongo);
  await generations(mongo).updateOne({ _id: erased.subject }, { $set: { key: 'erased' } });
  for (const command of [older, erased]) {
    t.equal(await run(command), 'done');
    t.match(await generationOf(mongo, command), { state: 'SETTLED' });
  }
  t.equal(owners.ledger.debits.size, 2);
});

t.test('a generation whose key was replaced during the charge is not marked under its old key', async (t) => {
  const { mongo, run } = await setUp(t);
  const command = await postSettlement(mongo);
  const read = (await generationOf(mongo, command)) as OwedGeneration;
  await generations(mongo).updateOne({ _id: read._id }, { $set: { key: 'erased' } });
  const holds = await generationHolds(mongo).findOne();
  for (const mark of [markConsumed, markSettled]) {
    await t.rejects(
      inTransaction(mongo, FRONT_DOOR_BUDGET_MS, (session) => mark(mongo, read, session)),
      Stale,
    );
  }
  t.match(await generations(mongo).findOne({ _id: read._id }), { state: 'PENDING', usageConsumed: false });
  t.strictSame(await generationHolds(mongo).findOne(), holds);
  t.equal(await run(command), 'done', 'the next run reads the new key');
});

t.test('a failed settlement backs off longer each time, and longer still if an owner requests it', async (t) => {
  const { mongo, run, failAt } = await setUp(t);
  const command = await postSettlement(mongo);
  // Both times are of the same write, so that a pause before the read changes nothing.
  const rest = async () => {
    const { nextRunAt, lastError } = await again(mongo, command);
    return nextRunAt.getTime() - Number(lastError?.at);
  };
  failAt('/consume', { status: 500 });
  t.equal(await run(command), 'retried');
  const first = await rest();
  await expire(mongo, command);
  t.equal(await run(command), 'retried');
  t.ok((await rest()) > first);
  await expire(mongo, command);
  failAt('/consume', { status: 429, headers: { 'retry-after': '300' } });
  t.equal(await run(command), 'retried');
  t.ok((await rest()) > 290_000);
  t.match(await again(mongo, command), { lastError: { fingerprint: /usage service answered/ } });
});

t.test('a settlement that another process runs is left to it, and runs once that lease expires', async (t) => {
  const { mongo, owners, run } = await setUp(t);
  const command = await postSettlement(mongo);
  t.match(await claimCommand(mongo, settlement(command), { workerId: 'web@', leaseMs: HOUR }), { kind: 'claimed' });
  t.equal(await run(command), 'not-ours');
  t.match(await again(mongo, command), { attempts: 1 });
  t.equal(owners.calls.length, 0);
  await expireGenerations(mongo);
  t.equal(await run(command), 'done');
});

t.test('a generation older than a day becomes a dead letter and is paid for when an operator replays it', async (t) => {
  const { mongo, owners, run } = await setUp(t);
  const command = await postSettlement(mongo);
  await ageGeneration(mongo, command.subject);
  t.equal(await run(command), 'dead');
  t.match(await generationOf(mongo, command), { state: 'PENDING', closed: 'EXPIRED', idleSince: null });
  t.equal(owners.calls.length, 0);
  const dead = await again(mongo, command);
  t.ok(await replayDead(mongo, dead, { operator: 'op', reason: 'the wallet is back', now: Date.now() }));
  t.equal(await run(command), 'done');
  t.match(await generationOf(mongo, command), { state: 'SETTLED' });
  t.equal(owners.ledger.debits.size, 1);
});

t.test('MongoDB’s clock decides that a generation is older than a day, not the clock of the worker', async (t) => {
  for (const [offsetMs, inMs, result] of [
    [2 * HOUR, HOUR, 'done'],
    [-2 * HOUR, -HOUR, 'dead'],
  ] as const) {
    const { mongo, owners } = await setUp(t);
    const deps = { ...testWorkerDeps(mongo, { ...owners.env, ...ON }), now: () => Date.now() + offsetMs };
    const command = await postSettlement(mongo);
    const replayUntil = new Date(Date.now() + inMs);
    await generations(mongo).updateOne({ _id: command.subject }, { $set: { replayUntil } });
    t.equal(await runCommand(testKernel(mongo), settlementActor(deps), command), result);
    t.equal(owners.ledger.debits.size, result === 'done' ? 1 : 0);
  }
});

t.test('a worker killed between closing a generation and ending its command leaves both to the next', async (t) => {
  const { mongo, owners, run } = await setUp(t);
  const command = await postSettlement(mongo);
  await ageGeneration(mongo, command.subject);
  const before = await generationOf(mongo, command);
  t.match(await inCausalOrder(mongo, (session) => findOrClose(mongo, before, session)), { closed: 'EXPIRED' });
  const { fence, leaseUntil, state } = before;
  t.match(await generationOf(mongo, command), { closed: 'EXPIRED', fence, leaseUntil, state }, 'closed, and not held');
  await generations(mongo).updateOne({ _id: command.subject }, { $set: { replayUntil: new Date(Date.now() + HOUR) } });
  t.equal(await run(command), 'dead', 'a clock that goes back does not open it again');
  t.equal(owners.calls.length, 0);
});

t.test('an overdue generation that another process is still charging is left to it', async (t) => {
  const { mongo, owners, run } = await setUp(t);
  const command = await postSettlement(mongo);
  t.match(await claimCommand(mongo, settlement(command), { workerId: 'web@', leaseMs: HOUR }), { kind: 'claimed' });
  await ageGeneration(mongo, command.subject);
  t.equal(await run(command), 'not-ours');
  t.match(await generationOf(mongo, command), { state: 'PENDING', closed: null });
  await expireGenerations(mongo);
  t.equal(await run(command), 'dead');
  t.equal(owners.calls.length, 0);
});

t.test('a replayed settlement charges a superseded generation only with the consent of the operator', async (t) => {
  const { mongo, owners, run } = await setUp(t);
  const command = await postSettlement(mongo);
  await ageGeneration(mongo, command.subject);
  t.equal(await run(command), 'dead');
  const row = (await generationOf(mongo, command)) as OwedGeneration;
  const newer = { _id: 'newer', key: row.key, epoch: 2, organizationId: row.organizationId, actor: row.actor };
  const opened = await openGeneration(mongo, { ...newer, now: Date.now(), leaseMs: 60_000 }, row);
  t.match(opened, { kind: 'held', deadCommandId: null }, 'the command was dead already');
  const by = { operator: 'op', reason: 'the wallet is back', now: Date.now() };

  t.ok(await replayDead(mongo, await again(mongo, command), by));
  t.equal(await run(command), 'dead');
  t.match(await again(mongo, command), { status: 'DEAD', lastError: { message: /charged anew/ } });
  t.equal(owners.calls.length, 0);

  const consent = { chargeSuperseded: true };
  t.ok(await replayDead(mongo, await again(mongo, command), by, consent));
  t.equal(await run(command), 'done');
  t.match(await generationOf(mongo, command), { state: 'SETTLED', closed: 'SUPERSEDED' });
  t.match([...owners.ledger.debits], [[ownerKeysOf(command.subject).debit, { times: 1 }]]);
  t.equal(await operatorAudit(mongo).countDocuments({}), 2);
  t.equal(await operatorAudit(mongo).countDocuments({ chargeSuperseded: true }), 1, 'the consent is audited');
});

t.test('a request that is repeated while a replayed settlement backs off closes its generation again', async (t) => {
  const { mongo, owners, run, failAt } = await setUp(t);
  const command = await postSettlement(mongo);
  await ageGeneration(mongo, command.subject);
  t.equal(await run(command), 'dead');
  const by = { operator: 'op', reason: 'the wallet is back', now: Date.now() };
  t.ok(await replayDead(mongo, await again(mongo, command), by));
  failAt('/transactions', { status: 500 });
  t.equal(await run(command), 'retried');
  const row = (await generationOf(mongo, command)) as OwedGeneration;
  const newer = { _id: 'newer', key: row.key, epoch: 2, organizationId: row.organizationId, actor: row.actor };
  const opened = await openGeneration(mongo, { ...newer, now: Date.now(), leaseMs: 60_000 }, row);
  t.match(opened, { kind: 'held', deadCommandId: command._id });
  t.match(await again(mongo, command), { status: 'DEAD', replays: 1, lastError: { fingerprint: 'Superseded' } });
  owners.fault = null;
  await expire(mongo, command);
  t.equal(await run(command), 'not-ours');
  t.equal(owners.ledger.debits.size, 0);
});

t.test('a late settlement restarts the 24-hour replay of its generation', async (t) => {
  const { mongo, run } = await setUp(t);
  const command = await postSettlement(mongo);
  await generations(mongo).updateOne({ _id: command.subject }, { $set: { replayUntil: new Date(Date.now() + HOUR) } });
  t.equal(await run(command), 'done');
  const { state, replayUntil } = await generationOf(mongo, command);
  t.equal(state, 'SETTLED');
  t.ok(replayUntil !== null && replayUntil.getTime() > Date.now() + 23 * HOUR);
});

t.test('the settlement actor idles without its flag or an owner, and its commands wait', async (t) => {
  const { mongo, owners } = await setUp(t);
  const command = await postSettlement(mongo);
  for (const env of [owners.env, { ...ON, WALLET_SERVICE_URL: owners.url }, { ...ON, USAGE_SERVICE_URL: owners.url }]) {
    const actor = settlementActor(testWorkerDeps(mongo, env));
    t.strictSame(queuesOf(actor), []);
    const worker = testWorker(t, testKernel(mongo), actor);
    await worker.poll();
    await worker.idle();
    t.match(await again(mongo, command), { status: 'PENDING', attempts: 0, fence: 0 });
  }
});
