import t from 'tap';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommand, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { type GradeNotice, gradeNotices } from '#shared/attempt/notices.ts';
import { newId } from '#shared/kernel/ids.ts';
import { testKernel, testWorker } from '#testing/actors/test-kernel.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { gate, until } from '#testing/until.ts';
import type { Actor } from './actor.ts';

type NoticeQueue = 'gradenotices:student' | 'gradenotices:parent';
const DONE = { kind: 'done', result: { recipients: 0 } } as const;

function sampleNotice(): GradeNotice {
  const [notice] = gradeNotices(sampleAttempt());
  if (notice === undefined) throw new Error('an attempt has no notice');
  return notice;
}

t.test('a queue is polled although another queue of its actor has an endless backlog', async (t) => {
  const mongo = await openTestMongo(t);
  const post = async (queue: NoticeQueue) => {
    const now = Date.now() - 1_000;
    const about = { queue, key: newId(), subject: 'a test', body: sampleNotice(), maxAttempts: 10 };
    return (await postCommand(mongo, newCommand({ ...about, now }))).command;
  };
  let runs = 0;
  const actor: Actor = {
    name: 'two-queues',
    backoff: { baseMs: 1, capMs: 1 },
    handlers: {
      async 'gradenotices:student'() {
        runs += 1;
        // Each run posts another command, so the backlog never shrinks.
        await post('gradenotices:student');
        return DONE;
      },
      async 'gradenotices:parent'() {
        runs += 1;
        return DONE;
      },
    },
  };
  for (let n = 0; n < 10; n++) await post('gradenotices:student');
  testWorker(t, testKernel(mongo), actor, { concurrency: 2, pollMs: 20 });
  await until('the backlog is being worked off', () => runs > 20);
  const other = await post('gradenotices:parent');
  const settled = async () => (await readCommand(mongo, other))?.status === 'DONE';
  await until('the row of the other queue is taken', settled);
  t.pass('without any ring');
});

t.test('hanging commands of one queue take no slot of another queue', async (t) => {
  const mongo = await openTestMongo(t);
  const post = async (queue: NoticeQueue) => {
    const about = { queue, key: newId(), subject: 'a test', body: sampleNotice(), maxAttempts: 10 };
    return (await postCommand(mongo, newCommand({ ...about, now: Date.now() - 1_000 }))).command;
  };
  const go = gate();
  let hanging = 0;
  const actor: Actor = {
    name: 'two-queues',
    backoff: { baseMs: 1, capMs: 1 },
    handlers: {
      async 'gradenotices:student'() {
        hanging += 1;
        await go.opened;
        return DONE;
      },
      'gradenotices:parent': async () => DONE,
    },
  };
  for (let n = 0; n < 5; n++) await post('gradenotices:student');
  const worker = testWorker(t, testKernel(mongo), actor, { concurrency: 2, pollMs: 20 });
  t.teardown(go.open);
  await until('the slots of the first queue are in use', () => hanging === 2);
  const [polled, rung] = [await post('gradenotices:parent'), await post('gradenotices:parent')];
  void worker.tryRun(rung);
  for (const command of [rung, polled]) {
    const isDone = async () => (await readCommand(mongo, command))?.status === 'DONE';
    await until('the other queue is worked on, by rings and by the poll', isDone);
  }
  t.equal(hanging, 2, 'the first queue runs no more than its slots');
});
