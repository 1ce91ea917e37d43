import t from 'tap';
import { attempts, SEATS, seats } from '#infra/mongo/attempt/collections.ts';
import type { StartRequest } from '#shared/generated/attempt.ts';
import { callOf, coldFrontDoor } from '#testing/doors/in-process-door.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { startAttempt } from './start.ts';

/** A guest link with one seat. */
const BODY: StartRequest = {
  exam: { id: 'exam-1', status: 'PUBLISHED', durationMinutes: 60, showResultMode: 'IMMEDIATE' },
  access: { link: { id: 'link-1', mode: 'GUEST_ALLOWED', active: true, studentLimit: 1 } },
  questions: [{ questionId: 'q1', score: 1, type: 'ESSAY', scoringRule: { mode: 'ESSAY' } }],
};

/** Starts an attempt at a front door of its own. `before(n)` runs before the nth count of the link's seats, n from 1. */
function start(mongo: TestMongo, studentId: string, key: string, before?: (count: number) => Promise<void>) {
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

for (const at of [1, 2]) {
  for (const [name, winner] of [
    ['the same key', 'key-1'],
    ['another key', 'key-2'],
  ] as const) {
    t.test(`a start returns the attempt of a start under ${name} that took the last seat at count ${at}`, async (t) => {
      const mongo = await openTestMongo(t);
      let first: unknown;
      const second = await start(mongo, 'student-1', 'key-1', async (count) => {
        if (count === at) first = await start(mongo, 'student-1', winner);
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
    const second = await start(mongo, 'student-1', 'key-1', async (count) => {
      if (count === at) await start(mongo, 'student-2', 'key-1');
    });
    t.strictSame(second, { rejected: 'ACCESS_LINK_FULL' });
    t.equal(await attempts(mongo).countDocuments(), 1);
  });
}
