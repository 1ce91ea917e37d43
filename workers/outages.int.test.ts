import t from 'tap';
import { findAttemptById } from '#infra/mongo/attempt/attempts.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { scriptActor, testKernel, testWorker, testWorkerDeps, withStep } from '#testing/actors/test-kernel.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { type FaultPlan, faultyMongo, settles } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { startThrowAwayServices } from '#testing/stores/throw-away.ts';
import { actorSubjects, makeActor } from '#testing/suites/actor-subjects.ts';
import { endedWell } from '#testing/suites/kernel-suite.ts';
import { despiteOutages, gate, until } from '#testing/until.ts';
import { runCommand } from './run-command.ts';

t.test('a claim whose reply was lost is undone and spends no attempt', async (t) => {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  const deps = testWorkerDeps(mongo, { ...neighbours.env, ...neighbours.webhookEnv, ...neighbours.ownersEnv });
  for (const subject of actorSubjects(mongo, neighbours)) {
    const actor = makeActor(subject.name, deps);
    const command = await subject.post({ maxAttempts: 1 });
    const plans: FaultPlan[] = [
      { method: 'findOneAndUpdate', how: 'lost', times: 1 },
      { method: 'findOneAndUpdate', how: 'refused', times: 1 },
    ];
    for (const plan of plans) {
      const kernel = testKernel(faultyMongo(mongo, plan).mongo);
      t.equal(await runCommand(kernel, actor, command), 'not-ours');
      t.match(await again(mongo, command), { status: 'PENDING', attempts: 0, lockedUntil: null, workerId: null });
    }
    // The claim of another worker must not be undone.
    const rival = withStep(actor, () => new Promise<never>(() => undefined));
    void runCommand(testKernel(mongo, { workerId: 'rival' }), rival, command);
    const held = await until('claimed', async () => {
      const now = await again(mongo, command);
      return now.workerId === 'rival' ? now : null;
    });
    const kernel = testKernel(faultyMongo(mongo, { method: 'findOneAndUpdate', how: 'refused', times: 1 }).mongo);
    await runCommand(kernel, actor, command);
    t.match(await again(mongo, command), { workerId: 'rival', attempts: 1, lockedUntil: held?.lockedUntil });
  }
});

t.test('an outcome decided before an outage is written once, after the outage', async (t) => {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  const deps = testWorkerDeps(mongo, { ...neighbours.env, ...neighbours.webhookEnv, ...neighbours.ownersEnv });
  for (const subject of actorSubjects(mongo, neighbours)) {
    const command = await subject.post({ maxAttempts: 1 });
    const broken = faultyMongo(mongo, { method: 'updateOne', how: 'refused', times: 2, when: settles });
    const kernel = testKernel(broken.mongo);
    const actor = scriptActor(makeActor(subject.name, deps));
    t.equal(await runCommand(kernel, actor, command), subject.ends.result, subject.name);
    t.equal(broken.left(), 0, 'the write was repeated until it succeeded');
    t.equal(actor.runs.length, 1, 'the decision was not made again');
    t.match(await again(mongo, command), { status: subject.ends.status, fence: 1 });
    t.equal(await subject.effects(command), 1);
  }
});

t.test('an attempt is refunded if an outage lasts longer than the lease', async (t) => {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  const deps = testWorkerDeps(mongo, { ...neighbours.env, ...neighbours.webhookEnv, ...neighbours.ownersEnv });
  for (const subject of actorSubjects(mongo, neighbours)) {
    const actor = makeActor(subject.name, deps);
    const command = await subject.post();
    const [reached, go] = [gate(), gate()];
    const cutOff = scriptActor(actor, async (_run, real) => {
      const outcome = await real();
      reached.open();
      await go.opened;
      return outcome;
    });
    const broken = faultyMongo(mongo, { method: 'updateOne', how: 'refused', times: 1, when: settles });
    const late = runCommand(testKernel(broken.mongo, { workerId: 'cut-off' }), cutOff, command);
    await reached.opened;
    await expire(mongo, command);
    const rival = scriptActor(actor, async (_run, real) => {
      go.open();
      t.equal(await late, 'fenced', subject.name);
      return real();
    });
    const result = await runCommand(testKernel(mongo, { workerId: 'rival' }), rival, command);
    t.equal(result, subject.ends.result);
    await endedWell({ t, mongo, subject, actor, deps, kernel: () => testKernel(mongo) }, command);
  }
});

t.test('failures and a kill -9 of MongoDB lose no command and spend no attempt', async (t) => {
  const { mongodb, close } = await startThrowAwayServices({ redis: false, durable: true });
  if (mongodb === undefined) throw new Error('no MongoDB to kill');
  t.teardown(close);
  const mongo = await openTestMongo(t, { url: mongodb.url, limits: {} });
  const actor = makeActor('grading', testWorkerDeps(mongo));
  const kernel = testKernel(mongo, { leaseMs: 1_000 });
  const worker = testWorker(t, kernel, actor, { concurrency: 4, pollMs: 50 });
  t.teardown(() => kernel.halt.abort());

  const failing = [
    { failCommands: ['findAndModify'], errorCode: 11600 },
    { failCommands: ['find'], closeConnection: true },
    { failCommands: ['update'], errorCode: 91 },
    { failCommands: ['insert'], closeConnection: true },
    { failCommands: ['commitTransaction'], closeConnection: true },
    { failCommands: ['commitTransaction'], errorCode: 91 },
  ];
  const ids: string[] = [];
  for (const data of failing) {
    await mongo.client.db('admin').command({ configureFailPoint: 'failCommand', mode: { times: 6 }, data });
    for (let n = 0; n < 4; n++) ids.push(await postOne());
    await until('graded', allGraded);
    await mongo.client.db('admin').command({ configureFailPoint: 'failCommand', mode: 'off' });
  }
  for (let n = 0; n < 20; n++) ids.push(await postOne());
  await mongodb.kill9();
  t.equal(await mongo.db.command({ ping: 1 }).then(() => false, isOutage), true, 'MongoDB is unreachable');
  await mongodb.start();
  await despiteOutages(() => createIndexes(mongo));
  await until('graded after the kill', allGraded);
  await worker.drain();

  for (const id of ids) {
    const attempt = await findAttemptById(mongo, id);
    t.strictSame(
      attempt?.events.map((event) => event.type),
      ['START', 'SUBMIT'],
    );
  }
  const spent = await mongo.db.collection('commands').distinct('attempts');
  t.strictSame(spent, [1], 'no outage spent an attempt');

  async function postOne(): Promise<string> {
    // The test's own writes may meet the fault as well, so repeat them.
    for (;;) {
      try {
        const attempt = await storeAttempt(mongo, SUBMITTED);
        await postGrading(mongo, attempt);
        return attempt._id;
      } catch (error) {
        if (!isOutage(error)) throw error;
      }
    }
  }

  async function allGraded(): Promise<boolean> {
    const left = await mongo.db
      .collection('commands')
      .countDocuments({ queue: 'grading', status: 'PENDING' })
      .catch(() => 1);
    return left === 0;
  }
});
