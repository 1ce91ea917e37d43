import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { COMMANDS, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { graded, postHandoff, postRelease, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { afterSearch } from '#testing/stores/after-search.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { erasePerson } from './erase.ts';

const mongo = await openTestMongo(t);
const act = () => ({ operator: 'an', reason: 'a test', now: Date.now() });
const remarks = { feedback: 'Lan viết rõ ràng.' };

/** Erases the student. `meanwhile` runs once the commands of the attempt were searched, and before the attempt is rewritten. */
async function eraseDuring({ studentId }: Attempt, meanwhile: () => Promise<unknown>) {
  const searched = afterSearch(mongo, COMMANDS, (filter) => '$or' in filter, meanwhile);
  const { kind } = await erasePerson(searched.mongo, studentId, act());
  return { kind, times: searched.times() };
}

const run = (command: Command, actor: string) =>
  runCommand(testKernel(mongo), makeActor(actor, testWorkerDeps(mongo)), command);

async function handoffOf({ _id }: Attempt) {
  return mailboxOf(mongo, 'essayhandoff').findOne({ subject: _id, queue: 'essayhandoff' });
}

t.test('a handoff that is applied during the erasure keeps neither the student nor the remarks', async (t) => {
  const attempt = await storeAttempt(mongo, graded());
  const erased = await eraseDuring(attempt, async () => {
    t.equal(await run(await postHandoff(mongo, attempt, remarks), 'essayhandoff'), 'done');
  });
  t.strictSame(erased, { kind: 'erased', times: 1 });
  const command = await handoffOf(attempt);
  t.match(command, { status: 'DONE', body: { attemptId: attempt._id, handoff: { score: 1.5 } } });
  t.notMatch(JSON.stringify(command), new RegExp(`${attempt.studentId}|${remarks.feedback}`));
  t.match(await attempts(mongo).findOne({ _id: attempt._id }), { totalScore: 2.5, studentId: /^erased-/ });
});

t.test('a handoff that arrives after the erasure under the old student keeps neither of them', async (t) => {
  const attempt = await storeAttempt(mongo, graded());
  t.equal((await erasePerson(mongo, attempt.studentId, act())).kind, 'erased');
  t.equal(await run(await postHandoff(mongo, attempt, remarks), 'essayhandoff'), 'rejected');
  const command = await handoffOf(attempt);
  t.match(command, { status: 'REJECTED', result: { rejected: 'ATTEMPT_NOT_FOUND' } });
  t.notMatch(JSON.stringify(command), new RegExp(`${attempt.studentId}|${remarks.feedback}`));
});

t.test('the notices of a release during the erasure are erased with the attempt', async (t) => {
  const examId = `exam-${newId()}`;
  const attempt = await storeAttempt(mongo, { ...graded({ showResultMode: 'MANUAL' }), examId });
  const erased = await eraseDuring(attempt, async () => {
    t.equal(await run(await postRelease(mongo, { examId }), 'resultsrelease'), 'done');
    t.equal(await mongo.db.collection(NOTICES).countDocuments({ subject: attempt._id }), 2);
  });
  t.strictSame(erased, { kind: 'erased', times: 1 });
  t.equal(await mongo.db.collection(NOTICES).countDocuments({ subject: attempt._id }), 0);
});

t.test('an attempt waits for a notice of such a release that a worker is sending', async (t) => {
  const examId = `exam-${newId()}`;
  const attempt = await storeAttempt(mongo, { ...graded({ showResultMode: 'MANUAL' }), examId });
  const lockedUntil = new Date(Date.now() + 60_000);
  const erased = await eraseDuring(attempt, async () => {
    await run(await postRelease(mongo, { examId }), 'resultsrelease');
    await mongo.db.collection(NOTICES).updateMany({ subject: attempt._id }, { $set: { lockedUntil } });
  });
  t.strictSame(erased, { kind: 'waiting', times: 1 });
  t.match(await attempts(mongo).findOne({ _id: attempt._id }), { studentId: attempt.studentId });
  await mongo.db.collection(NOTICES).updateMany({ subject: attempt._id }, { $set: { lockedUntil: null } });
  t.equal((await erasePerson(mongo, attempt.studentId, act())).kind, 'erased');
  t.equal(await mongo.db.collection(NOTICES).countDocuments({ subject: attempt._id }), 0);
});
