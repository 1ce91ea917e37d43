import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { attempts, releases } from '#infra/mongo/attempt/collections.ts';
import { identified, openPapers } from '#infra/mongo/attempt/papers.ts';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { aiJobs, generationHolds, generations } from '#infra/mongo/classifier/collections.ts';
import { COMMANDS, DELIVERIES, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { fanOuts } from '#infra/mongo/notification/collections.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { operatorAudit, writeAudit } from '#infra/mongo/operator-audit.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradingKey } from '#shared/attempt/commands.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { captureLog } from '#testing/captured-log.ts';
import { graded, postGrading, postRelease, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { postJob, postSettlement } from '#testing/stored/stored-model-work.ts';
import { sampleFanOut } from '#testing/stored/stored-notifications.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { noneScans, watchFilters } from '#testing/stores/plans.ts';
import { gate, until } from '#testing/until.ts';
import { checkInvariants, INVARIANTS } from './invariants.ts';
import { openWanted } from './subscriptions.ts';

const now = () => Date.now();

/** Stores a graded attempt with its notices. */
async function storeGraded(mongo: TestMongo, change: Partial<Attempt> = {}): Promise<Attempt> {
  const attempt = await storeAttempt(mongo, { ...graded(), ...change });
  const notices = gradeNotices(attempt);
  await inTransaction(mongo, 60_000, (session) =>
    queueNotices(mongo, session, notices, { maxAttempts: 10, now: now() }),
  );
  return attempt;
}

/** Stores one object of every kind, as the product leaves it. */
async function storeWhole(mongo: TestMongo) {
  const submitted = await storeAttempt(mongo, SUBMITTED);
  const grading = await postGrading(mongo, submitted);
  const whole = await storeGraded(mongo);
  const open = await storeAttempt(mongo);
  const examId = 'exam-released';
  const released = await storeGraded(mongo, {
    examId,
    exam: { ...whole.exam, showResultMode: 'MANUAL', resultsReleasedAt: new Date() },
  });
  const release = await postRelease(mongo, { examId });
  // A release to some leaves the attempts of others as they are.
  const held = { ...whole.exam, showResultMode: 'MANUAL' } as const;
  await storeGraded(mongo, { examId: 'exam-held', studentId: 'student-held', exam: held });
  const some = await postRelease(mongo, { examId: 'exam-held', studentIds: ['student-other'] });
  await mongo.db
    .collection<Command>(COMMANDS)
    .updateOne({ _id: some._id }, { $set: { createdAt: new Date(now() - 3_600_000) } });
  const settlement = await postSettlement(mongo);
  const job = await postJob(mongo);
  const fanOut = sampleFanOut({ rows: 3, channels: new Set(['log']) });
  await insertFanOut(mongo, fanOut);
  const large = sampleFanOut({ rows: 5, rowsAtOnce: 2 });
  await insertFanOut(mongo, large);
  const dead = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
  const error = { fingerprint: 'Error', message: 'the disk is full', at: new Date(), code: null, refusal: null };
  await mongo.db
    .collection<Command>(COMMANDS)
    .updateOne({ _id: dead._id }, { $set: { status: 'DEAD', lastError: error, settledAt: new Date() } });
  for (let n = 0; n < 3; n++) {
    const act = { operator: 'an', reason: 'a test of the chain', now: now() };
    await writeAudit(mongo, act, { action: 'account.trace', subject: `digest-${n}`, detail: {} });
  }
  return { submitted, grading, whole, open, released, release, settlement, job, fanOut, large, dead };
}

t.test('what the product stores breaks no promise', async (t) => {
  const mongo = await openTestMongo(t);
  await storeWhole(mongo);
  const reports = await checkInvariants(mongo, now());
  t.strictSame(
    reports.filter(({ count }) => count > 0),
    [],
  );
  t.strictSame(
    reports.filter(({ checked }) => checked === 0).map(({ name }) => name),
    [],
    'each check has read something',
  );
  t.equal(new Set(reports.map(({ name }) => name)).size, INVARIANTS.length);
});

t.test('each planted corruption is found by the check of its promise, with an example', async (t) => {
  const mongo = await openTestMongo(t);
  const stored = await storeWhole(mongo);
  const commands = mongo.db.collection<Command>(COMMANDS);
  const planted: Record<string, string> = {};
  const plant = (name: string, example: string) => {
    planted[name] = example;
  };

  const lost = await storeAttempt(mongo, SUBMITTED);
  plant('a submitted attempt has a grading command', lost._id);

  const forgotten = await storeAttempt(mongo, SUBMITTED);
  await postGrading(mongo, forgotten);
  await commands.updateOne({ key: gradingKey(forgotten) }, { $set: { status: 'DONE', settledAt: new Date() } });
  plant('a settled grading command has graded its attempt', forgotten._id);

  const ungraded = await storeGraded(mongo, { totalScore: null });
  plant('a graded attempt has all its totals', ungraded._id);

  const wrong = await storeGraded(mongo, { totalScore: 1.5 });
  plant('the totals of a graded attempt are those of its answers', wrong._id);

  const gapped = await storeGraded(mongo, { eventSeq: 7 });
  plant('the events of an attempt have no gap, and few are stored in it', gapped._id);

  const missed = await storeGraded(mongo, {
    examId: 'exam-released',
    exam: { ...stored.whole.exam, showResultMode: 'MANUAL' },
  });
  await commands.updateOne({ _id: stored.release._id }, { $set: { createdAt: new Date(now() - 3_600_000) } });
  plant('a release has reached the graded attempts of its exam within ten minutes', missed._id);

  const silent = await storeGraded(mongo);
  await mongo.db.collection<Command>(NOTICES).deleteOne({ _id: `${silent._id}:notification:grade_released_parent` });
  plant('a graded attempt whose result is visible has its notices', silent._id);

  const announced = await storeGraded(mongo, { voidedAt: new Date() });
  plant('no notice of a voided attempt waits', announced._id);

  const freed = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
  await commands.updateOne({ _id: freed._id }, { $set: { attempts: 11 } });
  plant('a pending command can be claimed', freed._id);

  await commands.updateOne({ _id: stored.dead._id }, { $set: { lastError: null } });
  plant('a dead command names its error and its time', stored.dead._id);

  const [, second] = await operatorAudit(mongo).find({}).sort({ _id: 1 }).toArray();
  await operatorAudit(mongo).updateOne({ _id: second?._id ?? '' }, { $set: { reason: 'another reason' } });
  plant('the newest rows of the audit continue each other', 'row 2 was altered: its content does not match its hash');

  await commands.deleteOne({ _id: stored.large.finish._id });
  plant('a published fan-out has a command that finishes it', stored.large.fanOutId);

  const [row] = stored.fanOut.rows;
  await mongo.db.collection<Command>(DELIVERIES).deleteOne({ subject: row?._id ?? '' });
  plant('the notifications of one event are delivered over the same channels', row?._id ?? '');

  await commands.updateOne({ _id: stored.settlement._id }, { $set: { status: 'DONE', settledAt: new Date() } });
  plant('an unpaid generation has a settlement command that is not done', stored.settlement.subject);

  const paid = await postSettlement(mongo, { organizationId: 'org-paid' });
  await commands.updateOne({ _id: paid._id }, { $set: { status: 'DONE', settledAt: new Date() } });
  await generations(mongo).updateOne({ _id: paid.subject }, [{ $set: { state: 'SETTLED', settledAt: null } }]);
  await generationHolds(mongo).updateOne({ _id: 'org-paid' }, { $set: { holds: [] } });
  plant('a paid generation names its price and its time', paid.subject);

  const held = await postSettlement(mongo, { organizationId: 'org-held' });
  await generationHolds(mongo).updateOne({ _id: 'org-held' }, { $set: { 'holds.0.credits': 1 } });
  t.equal(await generations(mongo).countDocuments({ _id: held.subject, state: 'PENDING' }), 1);
  plant('a hold is the price of an unpaid generation', 'org-held');

  await commands.deleteOne({ _id: stored.job._id });
  plant('an open job has a command that is not done', stored.job.subject);

  t.strictSame(
    Object.keys(planted),
    INVARIANTS.map(({ name }) => name),
    'one corruption for each promise',
  );
  const before = await contents(mongo);
  for (const { name, count, examples, remedy } of await checkInvariants(mongo, now())) {
    t.strictSame({ name, count, examples }, { name, count: 1, examples: [planted[name]] });
    t.ok(remedy.length > 5);
  }
  t.strictSame(await contents(mongo), before, 'nothing was written');
});

/** Returns the number of rows of each collection. */
async function contents(mongo: TestMongo): Promise<Record<string, number>> {
  const collections = [attempts(mongo), releases(mongo), generations(mongo), aiJobs(mongo), fanOuts(mongo)];
  const counts = collections.map(async (one) => [one.collectionName, await one.countDocuments({})] as const);
  return Object.fromEntries(await Promise.all(counts));
}

t.test('a report has three examples, and all broken rows are counted', async (t) => {
  const mongo = await openTestMongo(t);
  for (let n = 0; n < 5; n++) await storeAttempt(mongo, SUBMITTED);
  const [report] = await checkInvariants(mongo, now());
  t.match(report, { count: 5, checked: 5, isCut: false });
  t.equal(report?.examples.length, 3);
});

t.test('no check scans a collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  // A planner may scan a collection that is almost empty.
  const paperId = await openPapers(mongo, 1).store(atOnce(identified({ questions: [] })));
  for (let n = 0; n < 20; n++) await storeGraded(mongo, { paperId });
  await storeWhole(mongo);
  seen.clear();
  await checkInvariants(mongo, now());
  await noneScans(t, mongo, seen, 15);
});

t.test('a read of the subscriptions that fails or hangs neither fails nor delays a change', async (t) => {
  const mongo = await openTestMongo(t);
  let now = 0;
  let reads = 0;
  let answer: () => Promise<unknown> = () => Promise.reject(new Error('no primary'));
  const db = { collection: () => ({ find: () => ({ toArray: () => (++reads > 0 ? answer() : null) }) }) };
  const log = captureLog();
  const wanted = openWanted({ ...mongo, db: db as unknown as typeof mongo.db }, () => now, log);
  const wants = async () => {
    const known = await wanted.wants('attempt.graded');
    await setImmediate();
    return known;
  };
  const later = async (ms: number) => {
    now += ms;
    const [before, known] = [reads, await wants()];
    t.equal(reads, before + 1, 'read again in the background');
    return known;
  };
  t.notOk(await wants(), 'a process that has never read knows of none');
  t.notOk(await later(5_000));
  t.equal(log.lines.length, 1, 'one warning for the outage');
  answer = () => Promise.resolve([{ types: ['attempt.graded'] }]);
  t.notOk(await later(5_000), 'no change waits during an outage');
  await until('the list is read', wants);
  const go = gate();
  answer = () => go.opened.then(() => []);
  t.ok(await later(2_500), 'a list in use is read again before it is old, and nothing waits for it');
  now += 2_500;
  t.ok(await wants(), 'the last known list counts, after one wait that is bounded');
  t.equal(log.lines.length, 2);
  t.ok(await wants());
  go.open();
  await until('the late reply counts', async () => !(await wants()));
});
