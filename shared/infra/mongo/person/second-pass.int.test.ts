import t from 'tap';
import { CLASSIFIER } from '#infra/config/variables/classifier.ts';
import { NOTIFICATION } from '#infra/config/variables/notification.ts';
import { WORKERS } from '#infra/config/variables/process.ts';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { aiJobs } from '#infra/mongo/classifier/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import {
  ERASED_PERSONS,
  erasedPersons,
  findTombstone,
  SECOND_PASS_MS,
  tombstoneId,
} from '#infra/mongo/erased-persons.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { DECLARATIONS } from '#infra/mongo/schema/personal-fields.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import { CONTEXT_LIMIT_MS } from '#infra/neighbours/question-bank.ts';
import { ACCESS_MS } from '#shared/auth/session.ts';
import { newId } from '#shared/kernel/ids.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { STAGE_WITHIN_MS } from '#shared/notification/fan-out.ts';
import { bulkOrder } from '#shared/operations/bulk-act.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { postJob } from '#testing/stored/stored-model-work.ts';
import { makePassDue, storeErasedMeanwhile } from '#testing/stored/stored-person.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { noneScans, watchFilters } from '#testing/stores/plans.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { eraseAgain, erasePerson, NEXT_PASS_MS, type PendingErasure, pendingErasures } from './erase.ts';

const mongo = await openTestMongo(t);
const act = () => ({ now: Date.now(), maxAttempts: 3 });

/** Returns the names of the collections in which an id occurs anywhere. */
async function placesOf(id: string): Promise<string[]> {
  const places: string[] = [];
  for (const [name] of DECLARATIONS) {
    const rows = await mongo.db.collection(name).find({}).toArray();
    if (JSON.stringify(rows).includes(id)) places.push(name);
  }
  return places;
}

async function pendingOf(id: string, on: Mongo = mongo): Promise<PendingErasure> {
  const found = (await pendingErasures(on, 1_000)).find(({ again }) => again.id === id);
  if (found === undefined) throw new Error('no second pass is pending');
  return found;
}

const pass = async (id: string, on: Mongo = mongo) => eraseAgain(on, await pendingOf(id), act());
const linesOf = async (id: string) => operatorAudit(mongo).countDocuments({ subject: await tombstoneId(mongo, id) });

/** Returns a bulk act on the letters of a person, as a front door stores it that has read no tombstone. */
function newBulk(subject: string) {
  const now = Date.now();
  const how = { act: 'drop', perSecond: 20, chargeSuperseded: false, counted: 0, operator: 'an' } as const;
  const body = { ...how, reason: 'a test', filter: { subject, until: new Date(now) } };
  return newCommand({ ...bulkOrder(newId(), body), maxAttempts: 3, now });
}

const LEFT = ['notifications', 'notification_preferences', 'notification_deliveries', ERASED_PERSONS];

t.test('rows that a killed front door left are gone after the second pass, and so is the id', async (t) => {
  const id = await storeErasedMeanwhile(mongo);
  t.strictSame(await placesOf(id), LEFT, 'the first pass missed them');
  t.strictSame(await pass(id), { kind: 'early' });
  t.strictSame(await placesOf(id), LEFT, 'a pass that is not due erases nothing');
  await makePassDue(mongo, id);
  t.strictSame(await pass(id), { kind: 'erased', found: true });
  t.strictSame(await placesOf(id), []);
  t.notOk('again' in ((await findTombstone(mongo, id)) ?? {}));
  t.match(
    await operatorAudit(mongo)
      .find({ subject: await tombstoneId(mongo, id) })
      .toArray(),
    [
      { action: 'account.person-erase', operator: 'an', reason: 'request by letter' },
      { action: 'account.person-erase', operator: 'an', reason: 'request by letter' },
    ],
  );
});

t.test('a pass that finds nothing writes no line and forgets the id', async (t) => {
  const id = 'person-without-rows';
  const { tombstone } = await erasePerson(mongo, id, { operator: 'an', reason: 'a test', now: Date.now() });
  t.match(tombstone.again, { id, at: new Date(tombstone.begunAt.getTime() + SECOND_PASS_MS) });
  await makePassDue(mongo, id);
  t.strictSame(await pass(id), { kind: 'erased', found: false });
  t.strictSame(await placesOf(id), []);
  t.equal(await linesOf(id), 1);
  t.strictSame(await pendingErasures(mongo, 10), [], 'an operator who repeats the command plans no further pass');
  t.match(await erasePerson(mongo, id, { operator: 'an', reason: 'a test', now: Date.now() }), { already: true });
  t.strictSame(await pendingErasures(mongo, 10), []);
});

t.test('a second pass is later than any write by a view from before the tombstone', async (t) => {
  const variables = Object.entries({ ...CLASSIFIER, ...NOTIFICATION, ...WORKERS });
  const leases = variables.flatMap(([name, one]) => (/_LEASE_MS$/.test(name) && 'max' in one ? [one.max] : []));
  t.equal(leases.length, 3);
  t.ok(SECOND_PASS_MS > Math.max(...leases) + 2 * MINUTE, 'the longest lease, and an open transaction');
  const requestMs = Math.max(STAGE_WITHIN_MS, CONTEXT_LIMIT_MS + 10 * FRONT_DOOR_BUDGET_MS);
  t.ok(SECOND_PASS_MS > ACCESS_MS + 2 * requestMs, 'the last request with an access token of before');
});

t.test('a repeated erasure that finds rows plans another pass', async (t) => {
  const id = await storeErasedMeanwhile(mongo);
  await makePassDue(mongo, id);
  const before = Date.now();
  t.match(await erasePerson(mongo, id, { operator: 'an', reason: 'a test', now: before }), { already: false });
  t.match(await pendingOf(id), { again: { at: new Date(before + SECOND_PASS_MS) } });
  await makePassDue(mongo, id);
  t.strictSame(await pass(id), { kind: 'erased', found: false });
});

t.test('MongoDB alone decides that a pass is due, whatever the clock of the worker', async (t) => {
  const id = await storeErasedMeanwhile(mongo);
  const pending = await pendingOf(id);
  const ahead = { ...act(), now: Date.now() + 2 * SECOND_PASS_MS };
  t.strictSame(await eraseAgain(mongo, pending, ahead), { kind: 'early' });
  await makePassDue(mongo, id);
  const behind = { ...act(), now: Date.now() - 2 * SECOND_PASS_MS };
  t.strictSame(await eraseAgain(mongo, pending, behind), { kind: 'early' }, 'another worker has taken the listed one');
  t.strictSame(await eraseAgain(mongo, await pendingOf(id), behind), { kind: 'erased', found: true });
  t.strictSame(await placesOf(id), []);
});

t.test('of several workers one makes the pass', async (t) => {
  const id = await storeErasedMeanwhile(mongo);
  await makePassDue(mongo, id);
  const passes = await Promise.all(Array.from({ length: 5 }, () => pass(id)));
  t.strictSame(passes.map(({ kind }) => kind).sort(), ['early', 'early', 'early', 'early', 'erased']);
  t.equal(await linesOf(id), 2);
});

t.test('a worker that dies at any write of a pass is followed by another one', async (t) => {
  const spareId = await storeErasedMeanwhile(mongo);
  await makePassDue(mongo, spareId);
  const spare = dyingProcess(mongo, Number.POSITIVE_INFINITY, 'before');
  await eraseAgain(spare.mongo, await pendingOf(spareId), act());
  const writes = spare.passed();
  t.ok(writes > 8, `a pass has ${writes} writes`);
  for (let point = 1; point <= writes; point++) {
    const id = await storeErasedMeanwhile(mongo);
    await makePassDue(mongo, id);
    const dying = dyingProcess(mongo, point, 'after');
    await t.rejects(eraseAgain(dying.mongo, await pendingOf(id), act()), /the process is dead/, `dies after ${point}`);
    if (point === writes) t.strictSame(await placesOf(id), [], 'the last write forgets the id');
    else {
      const [next] = (await pendingErasures(mongo, 1_000)).filter(({ again }) => again.id === id);
      t.ok((next?.again.at.getTime() ?? 0) > Date.now() + NEXT_PASS_MS / 2, 'the next pass waits for its pause');
      await makePassDue(mongo, id);
      t.match(await pass(id), { kind: 'erased' });
    }
    t.strictSame(await placesOf(id), []);
    t.match((await findTombstone(mongo, id))?.counts, { notifications: { deleted: 2 } }, 'each row is counted once');
    t.equal(await linesOf(id), 2, 'one line of each pass');
  }
});

t.test('a start, a job and a bulk act of the first pass end, and a later pass erases them', async (t) => {
  const id = 'person-at-work';
  await erasePerson(mongo, id, { operator: 'an', reason: 'a test', now: Date.now() });
  const attempt = await storeAttempt(mongo, { studentId: id });
  const job = await postJob(mongo, { questions: 1, request: { actorId: id } });
  const bulk = newBulk(id);
  await mailboxOf(mongo, 'upkeep:deadletters').insertOne(bulk);
  await makePassDue(mongo, id);
  const first = await pass(id);
  t.strictSame('rows' in first && Object.fromEntries(first.rows), { attempts: 1, ai_jobs: 1 });
  t.match(await attempts(mongo).findOne({ _id: attempt._id }), { status: 'SUBMITTED', submittedBy: 'TIMEOUT' });
  t.match(await mailboxOf(mongo, 'upkeep:deadletters').findOne({ _id: bulk._id }), { subject: /^erased-/ });
  t.match(await findTombstone(mongo, id), { state: 'ERASING', again: { id } });

  const grading = await mailboxOf(mongo, 'grading').findOne({ subject: attempt._id });
  if (grading === null) throw new Error('the grading is missing');
  t.equal(await runCommand(testKernel(mongo), makeActor('grading', testWorkerDeps(mongo)), grading), 'done');
  await aiJobs(mongo).updateOne({ _id: job.subject }, { $set: { status: 'CANCELLED', open: false } });
  await makePassDue(mongo, id);
  t.strictSame(await pass(id), { kind: 'erased', found: true });
  t.match(await attempts(mongo).findOne({ _id: attempt._id }), { status: 'GRADED', studentId: /^erased-/ });
  t.strictSame(await placesOf(id), []);
});

t.test('the search for pending passes scans no collection', async (t) => {
  const watched = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(watched);
  await createIndexes(watched);
  for (let n = 0; n < 20; n++) {
    await erasePerson(watched, `person-${n}`, { operator: 'an', reason: 'a test', now: Date.now() });
    if (n > 2)
      await erasedPersons(watched).updateOne(
        { _id: await tombstoneId(watched, `person-${n}`) },
        { $unset: { again: 1 } },
      );
  }
  seen.clear();
  t.equal((await pendingErasures(watched, 10)).length, 3);
  await noneScans(t, watched, seen, 1);
});
