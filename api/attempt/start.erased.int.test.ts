import t from 'tap';
import { attempts, seats } from '#infra/mongo/attempt/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { openTombstone } from '#infra/mongo/erased-persons.ts';
import { numeric, startBody } from '#testing/clients/attempt-client.ts';
import { callOf, inProcessDoor } from '#testing/doors/in-process-door.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { startAttempt } from './start.ts';

const mongo = await openTestMongo(t);
const act = () => ({ operator: 'an', reason: 'a test', now: Date.now() });
const link = (id: string) => ({ id, mode: 'GUEST_ALLOWED', active: true, studentLimit: 3 });

/** Starts an attempt of a student on a guest link. */
function start(on: Mongo, studentId: string) {
  const access = { assigned: false, link: link(`link-of-${studentId}`) };
  const body = startBody('exam-1', { access, questions: [numeric('q', [{ value: 2 }])] });
  return startAttempt(inProcessDoor(on, {}), callOf(body as never, { examId: 'exam-1' }, studentId, 'key-1'));
}

t.test('a start of an erased student is refused, and never stores an attempt or a seat', async (t) => {
  await openTombstone(mongo, 'student-1', act());
  // A row that is withdrawn later may outlive its process, and takes a seat meanwhile.
  const inserted: string[] = [];
  const db = tappedDb(mongo, (_method, name, collection) => {
    if (/^(insert|update|findOneAnd)/.test(name)) inserted.push(collection);
    return undefined;
  });
  t.match(await start({ ...mongo, db }, 'student-1'), { rejected: 'PERSON_ERASED' });
  // Students share a paper, which names none.
  t.strictSame(inserted, ['attempt_papers']);
  t.equal(await attempts(mongo).countDocuments({ studentId: 'student-1' }), 0);
  t.match(await start(mongo, 'student-2'), { status: 201 }, 'another student starts');
});

t.test('a start that an erasure overtakes withdraws its attempt and its seat', async (t) => {
  // The tombstone is stored after the start has read the tombstones, and before it inserts the attempt.
  const db = tappedDb(mongo, (method, name, collection) =>
    name === 'insertOne' && collection === 'attempts'
      ? async (...args) => {
          await openTombstone(mongo, 'student-3', act());
          return method(...args);
        }
      : undefined,
  );
  t.match(await start({ ...mongo, db }, 'student-3'), { rejected: 'PERSON_ERASED' });
  t.equal(await attempts(mongo).countDocuments({ studentId: 'student-3' }), 0);
  t.equal(await seats(mongo).countDocuments({ studentId: 'student-3' }), 0);
});
