import t from 'tap';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { attempts } from './collections.ts';
import { openEventTails } from './event-tail.ts';
import { appendClientEvent } from './events.ts';
import { saveAnswer, saveAnswerWithRows } from './save-answer.ts';

const HOUR_MS = 3_600_000;
const LIMITS = { budgetMs: 5_000, now: Date.now };

t.test('an event is never dated before the event that it follows', async (t) => {
  const mongo = await openTestMongo(t);
  const ahead = new Date(Date.now() + HOUR_MS);
  const attempt = await storeAttempt(mongo, { deadlineAt: new Date(Date.now() + 9 * HOUR_MS) });
  // Written by a primary whose clock was an hour ahead of the clock of the next primary.
  await attempts(mongo).updateOne(
    { _id: attempt._id },
    { $set: { events: [{ seq: 1, type: 'START', metadata: '{}', createdAt: ahead }], eventSeq: 1 } },
  );
  const save = {
    attempt,
    paperIndex: 0,
    content: { selected: ['a'] },
    bytes: 1,
    clientVersion: 0,
    metadata: (serverVersion: number) => ({ serverVersion }),
  };
  t.equal((await saveAnswer(mongo, save)).kind, 'saved');
  t.equal((await saveAnswerWithRows(mongo, save, 5_000, Date.now)).kind, 'saved');
  const write = { attempt, type: 'QUESTION_VIEW' as const };
  const append = async (metadata: string) => {
    const appended = await appendClientEvent(mongo, openEventTails(mongo), { ...write, metadata }, LIMITS);
    return appended.kind === 'appended' ? appended.event : null;
  };
  const short = await append('{}');
  const long = await append(`"${'x'.repeat(5_000)}"`);
  t.same([short?.createdAt, long?.createdAt], [ahead, ahead]);

  const stored = await attempts(mongo).findOne({ _id: attempt._id });
  t.same(
    stored?.events.slice(-4).map(({ createdAt }) => createdAt),
    [ahead, ahead, ahead, ahead],
  );
  await attempts(mongo).updateOne({ _id: attempt._id }, { $set: { events: [] } });
  const first = await append('{}');
  t.ok(
    first !== null && Math.abs(first.createdAt.getTime() - Date.now()) < HOUR_MS / 2,
    'the first event is dated now',
  );
});
