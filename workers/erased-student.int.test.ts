import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Command } from '#shared/kernel/command.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { graded, postGrading, postHandoff, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from './run-command.ts';

const mongo = await openTestMongo(t);
const commands = mongo.db.collection<Command>('commands');

/** Runs the command and returns its end and the attempt afterwards. */
async function run(actor: 'grading' | 'essayhandoff', command: Command, attempt: Attempt) {
  const end = await runCommand(testKernel(mongo), makeActor(actor, testWorkerDeps(mongo)), command);
  return { end, attempt: await attempts(mongo).findOne({ _id: attempt._id }) };
}

t.test('commands name the student of their attempt', async (t) => {
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const about = { attemptId: attempt._id, studentId: attempt.studentId };
  t.match(await postGrading(mongo, attempt), { body: about });
  t.match(await postHandoff(mongo, attempt), { body: about });
});

t.test('a command whose erasure took the student out still finds its attempt by the id', async (t) => {
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const posted = [await postGrading(mongo, attempt), await postHandoff(mongo, attempt)] as const;
  for (const { _id } of posted) await commands.updateOne({ _id }, { $unset: { 'body.studentId': 1 } });
  const [grading, handoff] = posted;
  t.match(await run('grading', grading, attempt), { end: 'done', attempt: { status: 'GRADED' } });
  t.match(await run('essayhandoff', handoff, attempt), { end: 'done', attempt: { answers: { q1: { score: 1.5 } } } });
});

t.test('a command whose student was erased since still finds its attempt', async (t) => {
  const attempt = await storeAttempt(mongo, graded());
  const handoff = await postHandoff(mongo, attempt);
  const erased = { studentId: 'erased-1', erasedAt: new Date() };
  await attempts(mongo).updateOne({ _id: attempt._id }, { $set: erased });
  t.match(await run('essayhandoff', handoff, attempt), {
    end: 'rejected',
    attempt: { answers: { q1: { score: null } } },
  });
  const grading = await postGrading(mongo, attempt);
  t.match(await run('grading', grading, attempt), { end: 'done' }, 'it was graded before the erasure');
});
