import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { newId } from '#shared/kernel/ids.ts';
import { callOf, inProcessDoor } from '#testing/doors/in-process-door.ts';
import { graded, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { receiveHandoff } from './intake.ts';
import { readAttempt } from './queries.ts';
import { saveOneAnswer } from './save-answer.ts';
import { postEvent, submitAttempt } from './submit.ts';

const mongo = await openTestMongo(t);
const FORBIDDEN = { rejected: 'FORBIDDEN' };

/** Stores a graded attempt, lets a front door cache its ref, and erases the student. */
async function erasedBehindDoor() {
  const studentId = newId();
  const attempt = await storeAttempt(mongo, { ...graded(), studentId });
  const door = inProcessDoor(mongo, {});
  const call = <Body>(body: Body) => callOf(body, { attemptId: attempt._id }, studentId);
  t.match(await saveOneAnswer(door, call(answerTo('choice'))), { rejected: 'ATTEMPT_LOCKED' }, 'the ref is cached');
  const act = { operator: 'an', reason: 'a test', now: Date.now() };
  t.equal((await erasePerson(mongo, studentId, act)).kind, 'erased');
  return { studentId, attempt, door, call };
}

const answerTo = (questionId: string) => ({ questionId, answer: { selectedOptionIds: ['a'] } });

t.test('a front door that has cached the ref of an erased student refuses the id and stores nothing', async (t) => {
  for (const step of ['save', 'unknown question', 'submit', 'event', 'long event', 'timeout', 'read'] as const) {
    const { attempt, door, call } = await erasedBehindDoor();
    const before = await attempts(mongo).findOne({ _id: attempt._id });
    const metadata = { long: 'x'.repeat(5_000) };
    const steps = {
      save: () => saveOneAnswer(door, call(answerTo('choice'))),
      'unknown question': () => saveOneAnswer(door, call(answerTo('unknown'))),
      submit: () => submitAttempt(door, call({ source: 'STUDENT' as const })),
      event: () => postEvent(door, call({ type: 'TAB_HIDDEN' as const })),
      'long event': () => postEvent(door, call({ type: 'TAB_HIDDEN' as const, metadata })),
      timeout: () => postEvent(door, call({ type: 'TIMEOUT' as const })),
      read: () => readAttempt(door, call(undefined)),
    };
    t.strictSame(await steps[step](), FORBIDDEN, step);
    t.strictSame(await steps[step](), FORBIDDEN, `${step}, again`);
    t.strictSame(await attempts(mongo).findOne({ _id: attempt._id }), before, step);
  }
});

t.test(
  'a handoff to the attempt of an erased student stores the pseudonym, whatever the front door has cached',
  async (t) => {
    const { studentId, attempt, door } = await erasedBehindDoor();
    const { signal } = new AbortController();
    const body = { sourceEventId: 'late', questionId: 'essay', score: 1, maxScore: 2 };
    const call = { ...callOf(body, { attemptId: attempt._id }, ''), identity: {}, signal: AbortSignal.any([signal]) };
    const waiting = {
      ...door,
      replies: { ...door.replies, register: () => ({ settled: async () => false, cancel() {} }) },
    };
    t.match(await receiveHandoff(waiting as typeof door, call as never), { status: 202 });
    const [command] = await mongo.db.collection(COMMANDS).find({ subject: attempt._id }).toArray();
    t.match(command, { body: { attemptId: attempt._id, studentId: /^erased-/ } });
    t.equal(await mongo.db.collection(COMMANDS).countDocuments({ 'body.studentId': studentId }), 0);
  },
);
