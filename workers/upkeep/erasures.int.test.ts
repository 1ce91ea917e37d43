import t from 'tap';
import { erasedPersons, findTombstone, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { countRows, findPerson } from '#infra/mongo/person/find.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { makePassDue, storeErasedMeanwhile } from '#testing/stored/second-passes.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { ERASURES_SWEEP } from './sweeps.ts';

const mongo = await openTestMongo(t);
const rowsOf = async (id: string) => (await countRows(mongo, await findPerson(mongo, id))).size;

async function sweep() {
  const deps = testWorkerDeps(mongo);
  const wanted = newCommand({ ...ERASURES_SWEEP, body: {}, maxAttempts: 3, now: Date.now() - 1_000 });
  const { command } = await postCommand(mongo, wanted);
  await mailboxOf(mongo, 'upkeep').updateOne({ _id: command._id }, { $set: { nextRunAt: new Date(0) } });
  const actor = makeActor('upkeep', deps);
  t.ok(actor.recurring?.includes(ERASURES_SWEEP), 'a worker posts the sweep by itself');
  t.equal(await runCommand(testKernel(mongo), actor, command), 'snoozed');
  return deps.log.lines;
}

t.test('the sweep ends each erasure whose second pass is due, and no other', async (t) => {
  const [due, early] = [await storeErasedMeanwhile(mongo), await storeErasedMeanwhile(mongo)];
  await makePassDue(mongo, due);
  const lines = await sweep();
  t.match(
    lines.filter(({ message }) => message === 'second pass of an erasure ended'),
    [{ level: 'info', fields: { tombstone: await tombstoneId(mongo, due), found: true } }],
  );
  t.match(lines.find(({ message }) => message === 'operator act')?.fields, {
    action: 'account.person-erase',
    operator: 'an',
  });
  t.notMatch(JSON.stringify(lines), due, 'no line names the person');
  t.equal(await rowsOf(due), 0);
  t.notOk('again' in ((await findTombstone(mongo, due)) ?? {}));
  t.not(await rowsOf(early), 0);
  t.match(await findTombstone(mongo, early), { again: { id: early } });
});

t.test('a pass that fails is logged, runs again later, and blocks no other', async (t) => {
  const [failing, next] = [await storeErasedMeanwhile(mongo), await storeErasedMeanwhile(mongo)];
  const broken = { state: 'ERASING', pseudonym: null } as const;
  await erasedPersons(mongo).updateOne({ _id: await tombstoneId(mongo, failing) }, { $set: broken });
  for (const id of [failing, next]) await makePassDue(mongo, id);
  const errors = (await sweep()).filter(({ level }) => level === 'error');
  const message = 'second pass of an erasure failed; a later sweep retries';
  t.match(errors, [{ message, fields: { tombstone: await tombstoneId(mongo, failing), err: Error } }]);
  t.equal(await rowsOf(next), 0);
  t.strictSame(
    (await sweep()).filter(({ level }) => level === 'error'),
    [],
    'it waits for its pause',
  );
  const mended = { state: 'ERASED' } as const;
  await erasedPersons(mongo).updateOne({ _id: await tombstoneId(mongo, failing) }, { $set: mended });
  await makePassDue(mongo, failing);
  await sweep();
  t.equal(await rowsOf(failing), 0);
});
