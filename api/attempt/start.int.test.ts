import t from 'tap';
import { attempts, SEATS, seats } from '#infra/mongo/attempt/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { openTombstone } from '#infra/mongo/erased-persons.ts';
import type { StartRequest } from '#shared/generated/attempt.ts';
import { numeric, startBody } from '#testing/clients/attempt-client.ts';
import { callOf } from '#testing/doors/calls.ts';
import { coldFrontDoor, inProcessDoor } from '#testing/doors/in-process-door.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { startAttempt } from './start.ts';

/** A guest link with one seat. */
const BODY: StartRequest = {
  exam: { id: 'exam-1', status: 'PUBLISHED', durationMinutes: 60, showResultMode: 'IMMEDIATE' },
  access: { link: { id: 'link-1', mode: 'GUEST_ALLOWED', active: true, studentLimit: 1 } },
  questions: [{ questionId: 'q1', score: 1, type: 'ESSAY', scoringRule: { mode: 'ESSAY' } }],
};

/** Starts an attempt at a front door of its own. `before(n)` runs before the nth count of the link's seats, n from 1. */
function startAtSeat(mongo: TestMongo, studentId: string, key: string, before?: (count: number) => Promise<void>) {
  let counts = 0;
  const db = tappedDb(mongo, (method, name, collection) => {
    if (before === undefined || collection !== SEATS || name !== 'countDocuments') return undefined;
    return async (...args) => {
      counts += 1;
      await before(counts);
      return method(...args);
    };
  });
  const call = callOf(BODY, { examId: 'exam-1' }, studentId, key);
  return startAttempt(coldFrontDoor({ ...mongo, db }), call);
}

const mongo = await openTestMongo(t);

for (const at of [1, 2]) {
  for (const [name, winner] of [
    ['the same key', 'key-1'],
    ['another key', 'key-2'],
  ] as const) {
    t.test(`a start returns the attempt of a start under ${name} that took the last seat at count ${at}`, async (t) => {
      const mongo = await openTestMongo(t);
      let first: unknown;
      const second = await startAtSeat(mongo, 'student-1', 'key-1', async (count) => {
        if (count === at) first = await startAtSeat(mongo, 'student-1', winner);
      });
      const [stored] = await attempts(mongo).find({}).toArray();
      t.match(first, { status: 201, data: { created: true, attempt: { id: stored?._id } } });
      t.match(second, {
        status: 200,
        data: { created: false, attempt: { id: stored?._id } },
        headers: { 'Idempotency-Replayed': `${winner === 'key-1'}` },
      });
      t.equal(await attempts(mongo).countDocuments(), 1);
      t.equal(await seats(mongo).countDocuments(), 1);
    });
  }

  t.test(`a start is refused if another student took the last seat at count ${at}`, async (t) => {
    const mongo = await openTestMongo(t);
    const second = await startAtSeat(mongo, 'student-1', 'key-1', async (count) => {
      if (count === at) await startAtSeat(mongo, 'student-2', 'key-1');
    });
    t.strictSame(second, { rejected: 'ACCESS_LINK_FULL' });
    t.equal(await attempts(mongo).countDocuments(), 1);
  });
}
const act = () => ({ operator: 'an', reason: 'a test', now: Date.now() });
const link = (id: string) => ({ id, mode: 'GUEST_ALLOWED', active: true, studentLimit: 3 });

/** Starts an attempt of a student on a guest link. */
function startOnLink(on: Mongo, studentId: string) {
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
  t.match(await startOnLink({ ...mongo, db }, 'student-1'), { rejected: 'PERSON_ERASED' });
  // Students share a paper, which names none.
  t.strictSame(inserted, ['attempt_papers']);
  t.equal(await attempts(mongo).countDocuments({ studentId: 'student-1' }), 0);
  t.match(await startOnLink(mongo, 'student-2'), { status: 201 }, 'another student starts');
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
  t.match(await startOnLink({ ...mongo, db }, 'student-3'), { rejected: 'PERSON_ERASED' });
  t.equal(await attempts(mongo).countDocuments({ studentId: 'student-3' }), 0);
  t.equal(await seats(mongo).countDocuments({ studentId: 'student-3' }), 0);
});
