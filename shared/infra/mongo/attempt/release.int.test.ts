import type { ClientSession } from 'mongodb';
import t from 'tap';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { newId } from '#shared/kernel/ids.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { releases } from './collections.ts';
import { newestRelease, storeRelease } from './release.ts';

const AT_ONCE = 12;
const TERMS = { maxAttempts: 10, now: Date.now(), budgetMs: 30_000 };

const releaseOf = (examId: string, sourceEventId: string = newId()) => ({
  examId,
  organizationId: null,
  releasedAt: new Date('2026-05-04T03:00:00.000Z'),
  sourceEventId,
});
const numbersOf = async (mongo: TestMongo, examId: string) =>
  (await releases(mongo).find({ examId }).toArray()).map(({ number }) => number).sort((a, b) => a - b);

t.test('concurrent releases of one exam have consecutive numbers, each with its command', async (t) => {
  const mongo = await openTestMongo(t);
  const examId = `exam-${newId()}`;
  const posted = await Promise.all(
    Array.from({ length: AT_ONCE }, () => storeRelease(mongo, releaseOf(examId), TERMS)),
  );
  const wanted = Array.from({ length: AT_ONCE }, (_, index) => index + 1);
  t.ok(posted.every(({ created }) => created));
  t.strictSame(await numbersOf(mongo, examId), wanted);
  t.strictSame(
    posted.map(({ command }) => command.body.number).sort((a, b) => a - b),
    wanted,
  );
  t.equal(await newestRelease(mongo, examId), AT_ONCE);
  t.equal(await newestRelease(mongo, `${examId}-b`), 0, 'each exam counts by itself');
});

t.test('a source event is stored once, however often and for whichever exam it arrives', async (t) => {
  const mongo = await openTestMongo(t);
  const examId = `exam-${newId()}`;
  const sent = Array.from({ length: AT_ONCE }, () => storeRelease(mongo, releaseOf(examId, 'event-1'), TERMS));
  const posted = await Promise.all(sent);
  t.equal(posted.filter(({ created }) => created).length, 1);
  t.equal(new Set(posted.map(({ command }) => command._id)).size, 1);
  const other = await storeRelease(mongo, releaseOf('exam-other', 'event-1'), TERMS);
  t.match(other, { created: false, command: { body: { examId } } });
  t.strictSame(await numbersOf(mongo, examId), [1]);
  t.equal(await releases(mongo).countDocuments({}), 1);
});

t.test('a source event is found although a plain read of its shard does not show its command yet', async (t) => {
  const mongo = await openTestMongo(t);
  const first = await storeRelease(mongo, releaseOf('exam-1', 'event-1'), TERMS);
  const db = tappedDb(mongo, (method, name, collection) => {
    if (name !== 'findOne' || collection !== COMMANDS) return undefined;
    return (...args) => {
      const { session } = (args[1] ?? {}) as { session?: ClientSession };
      return session?.operationTime === undefined ? Promise.resolve(null) : method(...args);
    };
  });
  const again = await storeRelease({ ...mongo, db }, releaseOf('exam-1', 'event-1'), TERMS);
  t.match(again, { created: false, command: { _id: first.command._id } });
});

t.test('a release whose row cannot be stored leaves no command behind', async (t) => {
  const mongo = await openTestMongo(t);
  const db = tappedDb(mongo, (_, name, into) => {
    if (name !== 'insertOne' || into !== 'attempt_releases') return undefined;
    return () => Promise.reject(new Error('killed here'));
  });
  await t.rejects(storeRelease({ ...mongo, db }, releaseOf('exam-1'), TERMS), { message: 'killed here' });
  t.equal(await mongo.db.collection(COMMANDS).countDocuments({}), 0);
  t.equal(await releases(mongo).countDocuments({}), 0);
});
