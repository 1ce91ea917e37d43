import t from 'tap';
import { attempts, seats, textRows } from '#infra/mongo/attempt/collections.ts';
import { aiJobBatches, aiJobs } from '#infra/mongo/classifier/collections.ts';
import { erasedPersons, findTombstone, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommand, postCommandsIn } from '#infra/mongo/mailbox/mailbox.ts';
import { notificationEvents, notifications } from '#infra/mongo/notification/collections.ts';
import { countRows, findPerson } from '#infra/mongo/person/find.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { noticeOrder } from '#shared/attempt/commands.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { DAY } from '#shared/kernel/time.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { freshAttempt, graded, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { makePassDue, storeErasedMeanwhile, storePerson } from '#testing/stored/stored-person.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { noneScans, watchFilters } from '#testing/stores/plans.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { RETENTION_SWEEP } from './retention.ts';
import { ERASURES_SWEEP } from './sweeps.ts';

const mongo = await openTestMongo(t);
const ALL = { ATTEMPT_RETENTION_DAYS: '30', NOTIFICATION_RETENTION_DAYS: '30', AI_JOB_RETENTION_DAYS: '30' };
const daysAgo = (days: number) => new Date(Date.now() - days * DAY);

/** Runs the retention sweep once, as a worker with these settings would. */
async function sweep(mongo: TestMongo, env: NodeJS.ProcessEnv) {
  const order = { ...RETENTION_SWEEP, body: {}, maxAttempts: 3, now: Date.now() - 1_000 };
  const { command } = await postCommand(mongo, newCommand(order));
  await mailboxOf(mongo, 'upkeep').updateOne({ _id: command._id }, { $set: { nextRunAt: new Date(0) } });
  const actor = makeActor('upkeep', testWorkerDeps(mongo, env));
  t.equal(await runCommand(testKernel(mongo), actor, command), 'snoozed');
}

/** Stores a person whose rows are `days` old. */
async function storeAged(mongo: TestMongo, days: number) {
  const person = await storePerson(mongo);
  const { id, attemptId } = person;
  const at = daysAgo(days);
  await attempts(mongo).updateOne({ _id: attemptId }, { $set: { submittedAt: at, accessLinkId: `link-${attemptId}` } });
  await notifications(mongo).updateMany({ userId: id }, { $set: { createdAt: at } });
  await notificationEvents(mongo).updateMany({ targetUserIds: id }, { $set: { createdAt: at } });
  await aiJobs(mongo).updateMany({ actorId: id }, { $set: { finishedAt: at } });
  return person;
}

t.test('data at the end of its retention is expired, scores stay, and younger data is untouched', async (t) => {
  const mongo = await openTestMongo(t);
  const [old, young] = [await storeAged(mongo, 31), await storeAged(mongo, 29)];
  const [job] = await aiJobs(mongo).find({ actorId: old.id }).toArray();
  const link = `link-${old.attemptId}`;
  await sweep(mongo, ALL);

  const attempt = await attempts(mongo).findOne({ _id: old.attemptId });
  t.match(attempt, { studentId: /^erased-/, studentInfo: null, totalScore: 1, answers: { q1: { text: '' } } });
  t.equal(await textRows(mongo).countDocuments({ attemptId: old.attemptId }), 0);
  t.match(await seats(mongo).findOne({ linkId: link }), { studentId: attempt?.studentId ?? '', seat: 0 });
  t.equal(await notifications(mongo).countDocuments({ userId: old.id }), 0);
  t.equal(await notificationEvents(mongo).countDocuments({ targetUserIds: old.id }), 0);
  t.equal(await aiJobs(mongo).countDocuments({ actorId: old.id }), 0);
  t.equal(await aiJobBatches(mongo).countDocuments({ jobId: job?._id ?? '' }), 0);

  t.match(await attempts(mongo).findOne({ _id: young.attemptId }), {
    studentId: young.id,
    answers: { q1: { text: /./ } },
  });
  t.equal(await notifications(mongo).countDocuments({ userId: young.id }), 1);
  t.equal(await notificationEvents(mongo).countDocuments({ targetUserIds: young.id }), 2);
  t.equal(await aiJobs(mongo).countDocuments({ actorId: young.id }), 1);
});

t.test('a seat keeps the id while a younger attempt of the student on the link does', async (t) => {
  const mongo = await openTestMongo(t);
  const { id: studentId, attemptId } = await storeAged(mongo, 31);
  const accessLinkId = `link-${attemptId}`;
  const change = { ...graded(), studentId, accessLinkId, attemptNumber: 2, submittedAt: daysAgo(1) };
  const { _id } = await storeAttempt(mongo, change);
  await sweep(mongo, ALL);
  t.match(await attempts(mongo).findOne({ _id: attemptId }), { studentId: /^erased-/ });
  t.match(await seats(mongo).findOne({ linkId: accessLinkId }), { studentId });
  await attempts(mongo).updateOne({ _id }, { $set: { submittedAt: daysAgo(40) } });
  await sweep(mongo, ALL);
  t.match(await seats(mongo).findOne({ linkId: accessLinkId }), { studentId: /^erased-/ });
});

t.test('attempts whose rows must wait hold back no other, also if all were submitted at the same time', async (t) => {
  const mongo = await openTestMongo(t);
  // A portion has 100 rows. The notices of these attempts are in delivery.
  const [earlier, later] = [daysAgo(32), daysAgo(31)];
  const waiting = Array.from({ length: 130 }, (_, n) =>
    freshAttempt({ ...graded(), submittedAt: n < 5 ? earlier : later }),
  );
  await attempts(mongo).insertMany(waiting);
  const now = Date.now();
  const notices = waiting
    .flatMap((attempt) => gradeNotices(attempt))
    .map((notice) => newCommand({ ...noticeOrder(notice), maxAttempts: 30, now, id: notice.sourceEventId }))
    .map((notice) => ({ ...notice, lockedUntil: new Date(now + DAY) }));
  await inTransaction(mongo, 10_000, (session) => postCommandsIn(mongo, session, notices));
  const due = await storeAttempt(mongo, { ...graded(), submittedAt: later });

  const env = { ATTEMPT_RETENTION_DAYS: '30' };
  for (let n = 0; n < 2; n++) await sweep(mongo, env);
  t.match(await attempts(mongo).findOne({ _id: due._id }), { studentId: /^erased-/ });
  t.equal(await attempts(mongo).countDocuments({ erasedAt: null }), waiting.length, 'the others still wait');

  // Once they need not wait, the next walk finds them from the beginning.
  await mailboxOf(mongo, 'gradenotices:student').updateMany({}, { $set: { lockedUntil: null } });
  for (let n = 0; n < 2; n++) await sweep(mongo, env);
  t.equal(await attempts(mongo).countDocuments({ erasedAt: null }), 0);
});

t.test('nothing expires unless its retention is set, and the sweep is posted only then', async (t) => {
  const mongo = await openTestMongo(t);
  const old = await storeAged(mongo, 1_000);
  await sweep(mongo, {});
  t.match(await attempts(mongo).findOne({ _id: old.attemptId }), { studentId: old.id });
  t.equal(await notifications(mongo).countDocuments({ userId: old.id }), 1);
  const keysOf = (env: NodeJS.ProcessEnv) =>
    (makeActor('upkeep', testWorkerDeps(mongo, env)).recurring ?? []).map(({ key }) => key);
  t.notOk(keysOf({}).includes(RETENTION_SWEEP.key));
  t.ok(keysOf({ AI_JOB_RETENTION_DAYS: '30' }).includes(RETENTION_SWEEP.key));
});

t.test('no query of the retention scans a collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  for (let n = 0; n < 20; n++) await storeAged(mongo, n < 2 ? 31 : 1);
  seen.clear();
  await sweep(mongo, ALL);
  await noneScans(t, mongo, seen, 15);
});

/** Returns the number of rows about a person. */
const rowsOf = async (id: string) => (await countRows(mongo, await findPerson(mongo, id))).size;

/** Runs the sweep of erasures once and returns its log. */
async function sweepErasures() {
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
  const lines = await sweepErasures();
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
  const errors = (await sweepErasures()).filter(({ level }) => level === 'error');
  const message = 'second pass of an erasure failed; a later sweep retries';
  t.match(errors, [{ message, fields: { tombstone: await tombstoneId(mongo, failing), err: Error } }]);
  t.equal(await rowsOf(next), 0);
  t.strictSame(
    (await sweepErasures()).filter(({ level }) => level === 'error'),
    [],
    'it waits for its pause',
  );
  const mended = { state: 'ERASED' } as const;
  await erasedPersons(mongo).updateOne({ _id: await tombstoneId(mongo, failing) }, { $set: mended });
  await makePassDue(mongo, failing);
  await sweepErasures();
  t.equal(await rowsOf(failing), 0);
});
