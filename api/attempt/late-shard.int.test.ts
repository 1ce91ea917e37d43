import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { callOf, inProcessDoor } from '#testing/doors/in-process-door.ts';
import { graded, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { type Late, lateShard } from '#testing/stores/late-shard.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { receiveHandoff } from './intake.ts';
import { submitAttempt } from './submit.ts';

const mongo = await openTestMongo(t);
const workerOf = (actor: string) => testWorker(t, testKernel(mongo), makeActor(actor, testWorkerDeps(mongo)));
const workers = { grading: [workerOf('grading')], essayhandoff: [workerOf('essayhandoff')] };
const ATTEMPTS = attempts(mongo).collectionName;

/** Returns a front door that sees what `late` shows until commits arrive. Its workers see all. */
const lateDoor = (late: Late) => inProcessDoor(lateShard(mongo, late).mongo, workers);

t.test('a submit returns the grade although the shard of the attempt does not show it yet', async (t) => {
  const { _id, studentId } = await storeAttempt(mongo);
  const door = lateDoor({ [ATTEMPTS]: (row) => ({ ...row, status: 'SUBMITTED' }) });
  const call = callOf({ source: 'STUDENT' as const }, { attemptId: _id }, studentId);
  t.match(await submitAttempt(door, call), { status: 200, data: { id: _id, status: 'GRADED', totalScore: 1 } });
});

t.test('a repeated submit finds the grading command although its shard does not show it yet', async (t) => {
  const { _id, studentId } = await storeAttempt(mongo);
  const call = () => callOf({ source: 'STUDENT' as const }, { attemptId: _id }, studentId);
  const asleep = inProcessDoor(mongo, {});
  const late = { ...asleep.replies, register: () => ({ settled: async () => false, cancel: () => undefined }) };
  t.match(await submitAttempt({ ...asleep, replies: late }, call()), { status: 202 });
  const door = lateDoor({ [COMMANDS]: (row) => (row.subject === _id ? null : row) });
  t.match(await submitAttempt(door, call()), { status: 200, data: { status: 'GRADED' } }, 'it rings and waits');
});

t.test('a handoff that was applied returns the attempt with its score', async (t) => {
  const attempt = await storeAttempt(mongo, graded());
  const door = lateDoor({ [ATTEMPTS]: (row) => ({ ...row, ...graded() }) });
  const body = { sourceEventId: 'event-1', questionId: 'essay', score: 1.5, maxScore: 2 };
  const call = { ...callOf(body, { attemptId: attempt._id }, ''), identity: {} };
  t.match(await receiveHandoff(door, call as never), {
    status: 200,
    data: { applied: true, attempt: { totalScore: 2.5 } },
  });
});
