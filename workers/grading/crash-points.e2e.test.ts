import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Command } from '#shared/kernel/command.ts';
import { runWorkerUntil, startWorker } from '#testing/processes/worker-process.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { type CrashScenario, crashSuite, openLane } from '#testing/suites/crash-suite.ts';
import { until } from '#testing/until.ts';

const GRADING: CrashScenario = {
  name: 'grading',
  status: 'DONE',
  leastPoints: 12,
  post: async (mongo) => postGrading(mongo, await storeAttempt(mongo, SUBMITTED)),
  async check(t, { mongo }, { subject }) {
    const attempt = await attempts(mongo).findOne({ _id: subject });
    const totals = { totalScore: 1, correctCount: 1, wrongCount: 0, pendingManualCount: 1 };
    t.match(attempt, { status: 'GRADED', ...totals, eventSeq: 2, tally: { scored: true, graded: 1 } });
    t.strictSame(
      attempt?.events.map(({ type }) => type),
      ['START', 'SUBMIT'],
      'one terminal event',
    );
    const notices = await mongo.db.collection(NOTICES).find({ 'body.attemptId': subject }).toArray();
    t.equal(notices.length, 2, 'one pair of notices');
  },
};

t.test('a worker killed at any await of its run loses nothing and doubles nothing', (t) =>
  crashSuite(t, 'grading', [GRADING]),
);

t.test('a command that kills every worker ends dead and delays no other command', async (t) => {
  const { mongo, env } = await openLane(t);
  const poison = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 2 });
  const others: Command[] = [];
  for (let n = 0; n < 5; n++) others.push(await postGrading(mongo, await storeAttempt(mongo, SUBMITTED)));
  const read = (command: Command) => readCommand(mongo, command);
  let deaths = 0;
  while ((await read(poison))?.status === 'PENDING') {
    const kills = { commandId: poison._id, harm: 'kill' } as const;
    const worker = startWorker(t, 'grading', { ...env, WORKER_CONCURRENCY: '2' }, kills);
    const how = await runWorkerUntil(worker, async () => (await read(poison))?.status === 'DEAD');
    if (how === 'SIGKILL') deaths += 1;
  }
  t.equal(deaths, 2, 'two workers died');
  t.match(await read(poison), { status: 'DEAD', attempts: 2, lastError: { fingerprint: 'WorkerLost' } });
  const healthy = startWorker(t, 'grading', env);
  for (const other of others) await until('the others are graded', async () => (await read(other))?.status === 'DONE');
  await healthy.stop();
  t.match(await attempts(mongo).findOne({ _id: poison.subject }), { status: 'SUBMITTED' });
  t.equal(await mongo.db.collection(NOTICES).countDocuments({ 'body.attemptId': poison.subject }), 0);
});
