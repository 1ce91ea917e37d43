import t, { type Test } from 'tap';
import { generationHolds, generations } from '#infra/mongo/classifier/collections.ts';
import { acquireGeneration } from '#infra/mongo/classifier/generations.ts';
import { replayDead } from '#infra/mongo/mailbox/dead-letters.ts';
import { ownerKeysOf } from '#shared/classifier/generation.ts';
import type { Command } from '#shared/kernel/command.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { type OwnerFault, openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { ageGeneration, expireGenerations, generationOf, postSettlement } from '#testing/stored/stored-generations.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { again, expire } from '#testing/suites/kernel-features/feature.ts';
import { queuesOf } from '#workers/actor.ts';
import { runCommand } from '#workers/run-command.ts';
import { settlementActor } from './actor.ts';

const ON = { AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1' };

async function setUp(t: Test) {
  const [mongo, owners] = [await openTestMongo(t), await openFakeOwners(t)];
  const actor = settlementActor(testWorkerDeps(mongo, { ...owners.env, ...ON }));
  const run = (command: Command) => runCommand(testKernel(mongo), actor, command.queue, command._id);
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

t.test('a failed settlement backs off longer each time, and longer still if an owner requests it', async (t) => {
  const { mongo, run, failAt } = await setUp(t);
  const command = await postSettlement(mongo);
  const rest = async () => (await again(mongo, command)).nextRunAt.getTime() - Date.now();
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

t.test('a settlement snoozes while a front door holds its generation, and runs once that lease expires', async (t) => {
  const { mongo, owners, run } = await setUp(t);
  const command = await postSettlement(mongo);
  t.match(await acquireGeneration(mongo, command.subject, { by: 'door', leaseMs: 60_000 }), { kind: 'held' });
  t.equal(await run(command), 'snoozed');
  t.match(await again(mongo, command), { attempts: 0 });
  t.equal(owners.calls.length, 0);
  await expireGenerations(mongo);
  await expire(mongo, command);
  t.equal(await run(command), 'done');
});

t.test('a generation older than a day becomes a dead letter and is paid for when an operator replays it', async (t) => {
  const { mongo, owners, run } = await setUp(t);
  const command = await postSettlement(mongo);
  await ageGeneration(mongo, command.subject);
  t.equal(await run(command), 'dead');
  t.match(await generationOf(mongo, command), { state: 'PENDING', idleSince: null });
  t.equal(owners.calls.length, 0);
  const dead = await again(mongo, command);
  t.ok(await replayDead(mongo, dead, { operator: 'op', reason: 'the wallet is back', now: Date.now() }));
  t.equal(await run(command), 'done');
  t.match(await generationOf(mongo, command), { state: 'SETTLED' });
  t.equal(owners.ledger.debits.size, 1);
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
