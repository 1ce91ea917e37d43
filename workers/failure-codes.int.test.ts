import t from 'tap';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import type { Command } from '#shared/kernel/command.ts';
import { coded } from '#shared/kernel/failure.ts';
import { commandReason } from '#shared/operations/command-reason.ts';
import { withStep } from '#testing/actors/scripted-actor.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from './run-command.ts';

const mongo = await openTestMongo(t);
const kernel = testKernel(mongo);
const grading = makeActor('grading', testWorkerDeps(mongo));

/** Runs a grading that fails with this error. Returns the stored command. */
async function failed(command: Command, error: Error): Promise<Command> {
  await expire(mongo, command);
  await runCommand(
    kernel,
    withStep(grading, () => Promise.reject(error)),
    command,
  );
  return again(mongo, command);
}

/** Returns the reason that a trace states at the time of the failure. */
function reasonOf(command: Command): string | undefined {
  const worker = { _id: 'grading@host:1', actor: 'grading', queues: ['grading'], slots: 5, busy: [] };
  const now = command.lastError?.at.getTime() ?? 0;
  return commandReason(command, { now, workers: [worker], redis: 'up' })?.code;
}

t.test('a failure is stored with its code, and the next one replaces it', async (t) => {
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 5 });
  const first = await failed(command, coded('MISCONFIGURED', 'refused'));
  t.match(first.lastError, { code: 'MISCONFIGURED', message: 'refused' });
  t.equal(reasonOf(first), 'MISCONFIGURED');
  const second = await failed(command, new Error('the wallet service answered 402'));
  t.match(second.lastError, { code: null });
  t.equal(reasonOf(second), 'BACKS_OFF', 'the text is not read');
});

t.test('a command whose worker was killed at its last attempt has a code too', async (t) => {
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 1 });
  await mailboxOf(mongo, 'grading').updateOne({ _id: command._id }, { $set: { attempts: 1, fence: 1 } });
  await expire(mongo, command);
  t.equal(await runCommand(kernel, grading, command), 'dead');
  const dead = await again(mongo, command);
  t.match(dead.lastError, { code: 'WORKER_KILLED' });
  t.equal(reasonOf(dead), 'WORKER_KILLED');
});
