import t from 'tap';
import { aiJobs, generations, previewLeases } from '#infra/mongo/classifier/collections.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { countRows, findPerson } from '#infra/mongo/person/find.ts';
import { eraseAgain, pendingErasures } from '#infra/mongo/person/second-pass.ts';
import { captureLog } from '#testing/captured-log.ts';
import { openJobDoor } from '#testing/doors/job-door.ts';
import { paidDoor, preview } from '#testing/doors/paid-door.ts';
import { makePassDue } from '#testing/stored/second-passes.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { inFlight } from './in-flight.ts';

const mongo = await openTestMongo(t);
const erase = (id: string, on = mongo) => erasePerson(on, id, { operator: 'an', reason: 'a test', now: Date.now() });
const rowsOf = async (id: string, on = mongo) => (await countRows(on, await findPerson(on, id))).size;

/** Makes the second pass of an erasure due and runs it. */
async function passOf(id: string, on = mongo) {
  await makePassDue(on, id);
  const pending = (await pendingErasures(on, 10)).find(({ again }) => again.id === id);
  if (pending === undefined) throw new Error('no second pass is pending');
  return eraseAgain(on, pending, { now: Date.now(), maxAttempts: 3 });
}

/** Returns a MongoDB where the erasure of the person runs, to its end, just before a write to the collection. */
function erasedBefore(id: string, collection: string): TestMongo {
  let isErased = false;
  const db = tappedDb(mongo, (method, name, written) => {
    if (written !== collection || !/^(insert|update|findOneAnd)/.test(name) || isErased) return undefined;
    isErased = true;
    return async (...args) => {
      t.equal((await erase(id)).kind, 'erased');
      return method(...args);
    };
  });
  return { ...mongo, db };
}

const previewOf = (id: string, on: TestMongo, make: () => Promise<{ status: number; data: object }>) =>
  inFlight({ mongo: on, now: Date.now, log: captureLog() }, id, make);

t.test('a job and a preview of an erased caller are refused, and nothing is stored', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  await erase('teacher-1');
  t.match(await as('TEACHER', 'teacher-1').create(), { status: 410, json: { code: 'PERSON_ERASED' } });
  const never = () => Promise.reject(new Error('the model was called'));
  t.strictSame(await previewOf('teacher-1', mongo, never), { rejected: 'PERSON_ERASED' });
  t.equal(await rowsOf('teacher-1'), 0);
});

t.test('a job that is created during the erasure of its caller is erased by the second pass', async (t) => {
  const { as } = await openJobDoor(t, erasedBefore('teacher-2', 'ai_jobs'));
  const teacher = as('TEACHER', 'teacher-2');
  const made = await teacher.create();
  t.equal(made.status, 201, 'the tombstone came too late');
  t.equal(await rowsOf('teacher-2'), 1);
  t.match(await passOf('teacher-2'), { kind: 'waiting' }, 'the job is open');
  t.match(await teacher.cancel(made.data.job.id), { status: 200 });
  t.strictSame(await passOf('teacher-2'), { kind: 'erased', found: true });
  t.match(await aiJobs(mongo).findOne({ _id: made.data.job.id }), { actorId: /^erased-/, openKey: /^erased:/ });
  t.equal(await rowsOf('teacher-2'), 0);
});

t.test('a preview that begins during the erasure of its caller holds the second pass until it ends', async (t) => {
  const reply = { status: 200, data: {} };
  const during = erasedBefore('teacher-3', 'ai_preview_leases');
  await previewOf('teacher-3', during, async () => {
    t.match(await passOf('teacher-3'), { kind: 'waiting' });
    return reply;
  });
  t.strictSame(await passOf('teacher-3'), { kind: 'erased', found: true });
  t.equal(await previewLeases(mongo).findOne({ _id: 'teacher-3' }), null);
});

t.test('a paid generation whose caller was erased while its front door was paused leaves no row', async (t) => {
  const { mongo: own, door, models, owners } = await paidDoor(t);
  models.script = async () => {
    // The pause outlasts the leases of the row and of the preview, and both passes of the erasure.
    await generations(own).updateMany({}, { $set: { leaseUntil: new Date(0) } });
    await previewLeases(own).updateMany({}, { $set: { leases: [] } });
    t.equal((await erase('teacher-1', own)).kind, 'erased');
    t.match(await passOf('teacher-1', own), { kind: 'erased' });
    return undefined;
  };
  await t.rejects(preview(door), { message: 'PERSON_ERASED' });
  t.equal(models.asked.length, 1, 'no model is called for an erased person');
  t.equal(await rowsOf('teacher-1', own), 0);
  t.strictSame([owners.ledger.debits.size, owners.ledger.consumed.size], [0, 0], 'nothing is charged');
  t.match(await generations(own).find({}).toArray(), [{ key: /^erased:/, actor: { id: /^erased-/ }, state: 'MAKING' }]);
});
