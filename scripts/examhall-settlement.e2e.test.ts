import t from 'tap';
import { generations } from '#infra/mongo/classifier/collections.ts';
import { openGeneration } from '#infra/mongo/classifier/generation-epochs.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { OwedGeneration } from '#shared/classifier/generation.ts';
import type { Command } from '#shared/kernel/command.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { ageGeneration, generationOf, postSettlement } from '#testing/stored/stored-generations.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { runCommand } from '#workers/run-command.ts';
import { settlementActor } from '#workers/settlement/actor.ts';

const mongo = await openTestMongo(t);
const owners = await openFakeOwners(t);
const actor = settlementActor(testWorkerDeps(mongo, { ...owners.env, AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1' }));
const run = (command: Command) => runCommand(testKernel(mongo), actor, command);
const examhall = (...args: string[]) => callExamhall(mongo, args);

/** Stores a dead settlement whose answer is older than a day. Returns it with its generation. */
async function deadSettlement() {
  const command = await postSettlement(mongo);
  await ageGeneration(mongo, command.subject);
  t.equal(await run(command), 'dead');
  return { command, id: command._id, row: (await generationOf(mongo, command)) as OwedGeneration };
}

t.test('examhall dead replay charges a superseded answer only with --charge-superseded', async (t) => {
  const [plain, superseded] = [await deadSettlement(), await deadSettlement()];
  const { key, organizationId, actor: by } = superseded.row;
  const newer = { _id: 'newer', key, epoch: 2, organizationId, actor: by, now: Date.now(), leaseMs: 60_000 };
  t.match(await openGeneration(mongo, newer, superseded.row), { kind: 'held' });
  const { id } = superseded;

  const shown = await examhall('dead', 'show', id);
  t.match(JSON.parse(shown.out), { _id: id, superseded: true });
  t.match(shown.err, /^warning: superseded: an equal request was charged anew/);
  const other = await examhall('dead', 'show', plain.id);
  t.notMatch(JSON.parse(other.out), { superseded: Boolean });
  t.equal(other.err, '');

  const all = ['dead', 'replay', '--queue', 'settlement', '--reason', 'the wallet is back'];
  const dry = await examhall(...all);
  t.match(dry.out, /^dry run: 1 dead command would be replayed; pass --yes to replay it\n/);
  t.match(dry.out, new RegExp(`  ${id}  settlement  .*  skipped: superseded: .*; pass --charge-superseded`));
  t.notMatch(dry.out, new RegExp(`${plain.id}.*superseded`));

  const done = await examhall(...all, '--yes');
  t.equal(done.code, 1, 'not all were replayed');
  t.match(done.out, new RegExp(`${plain.id}  replayed`));
  t.match(done.out, new RegExp(`${id}  skipped: superseded`));
  t.match(await readCommand(mongo, superseded.command), { status: 'DEAD', replays: 0 });
  t.equal(await run(plain.command), 'done');

  const one = ['dead', 'replay', id, '--reason', 'agreed with the school', '--charge-superseded'];
  t.match((await examhall(...one)).out, new RegExp(`dry run: 1 .*\\n  ${id}  .*  superseded: charges an answer`));
  t.equal((await examhall(...one, '--yes')).code, 0);
  t.equal(await run(superseded.command), 'done');
  t.match(await generations(mongo).findOne({ _id: superseded.row._id }), { state: 'SETTLED' });
  t.equal(owners.ledger.debits.size, 2);
});
