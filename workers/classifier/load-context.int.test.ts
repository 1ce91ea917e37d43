import t from 'tap';
import { classifierScene, type Data, goodAnswer } from '#testing/actors/classifier-scene.ts';
import { testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { openFaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { expire } from '#testing/stored/stored-commands.ts';
import { postJob, questionIds } from '#testing/stored/stored-jobs.ts';
import { faultyMongo } from '#testing/stores/faulty-mongo.ts';
import { classifierActor } from './actor.ts';

t.test('questions that the bank does not return are not sent to the model', async (t) => {
  const { mongo, asked, actor, run, job, stored } = await classifierScene(t);
  const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
  const known = new Map(['d', 'b'].map((id) => [id, { id, content: 'c' }]));
  const command = await postJob(mongo, { request: { questionIds: ids }, context: { kind: 'LOADED', known } });
  let seen: unknown;
  await run(
    actor((_ids, _signal, task) => {
      seen = (task.data as Data).questions;
      return { items: goodAnswer(['d']).items };
    }),
    command,
  );
  t.strictSame(asked, [['b', 'd']], 'a batch without a known question is not sent');
  t.strictSame(seen, [
    { id: 'b', content: 'c' },
    { id: 'd', content: 'c' },
  ]);
  t.match(await job(command), { status: 'COMPLETED', counts: { succeeded: 1, failed: 6 } });
  t.strictSame(
    (await stored(command)).errors.map(({ questionId, code }) => [questionId, code]),
    ids
      .filter((id) => id !== 'd')
      .map((id) => [id, id === 'b' ? 'AI_PROVIDER_INVALID_RESPONSE' : 'AI_QUESTION_CONTEXT_FAILED']),
  );
});

t.test('prompts contain only ids if no bank is configured', async (t) => {
  const { mongo, actor, run, job } = await classifierScene(t);
  const command = await postJob(mongo, { context: { kind: 'NONE' } });
  const datas: Data[] = [];
  await run(
    actor((_ids, _signal, task) => void datas.push(task.data as Data)),
    command,
  );
  t.match(await job(command), { status: 'COMPLETED' });
  t.ok(datas.length === 2 && datas.every((data) => data.questions === undefined));
});

t.test('a round without questions loads them first, and fails if they cannot be loaded', async (t) => {
  const { mongo, asked, actor, run, job } = await classifierScene(t);
  const bank = await openFaultReceiver(t);
  const env = { QUESTION_BANK_SERVICE_URL: bank.url, INTERNAL_SERVICE_TOKEN: 'token-of-the-bank' };
  const post = async () => {
    const command = await postJob(mongo, { questions: 60, context: { kind: 'NONE' }, maxAttempts: 3 });
    await mongo.db
      .collection<{ _id: string }>('ai_jobs')
      .updateOne({ _id: command.subject }, { $set: { context: 'FAILED' } });
    return command;
  };
  bank.behaviour = { kind: 'answer', status: 500 };
  const failing = await post();
  t.equal(
    await run(
      actor(() => undefined, env),
      failing,
    ),
    'done',
  );
  t.match(await job(failing), { status: 'FAILED', open: false, error: { code: 'AI_QUESTION_CONTEXT_FAILED' } });
  t.equal(
    await run(
      actor(() => undefined),
      await post(),
    ),
    'done',
    'loaded questions need no configured bank',
  );
  t.strictSame(asked, [], 'never with ids only');
});

t.test('an interrupted load is repeated for all questions', async (t) => {
  const { mongo, actor, run, job } = await classifierScene(t);
  const owners = await openFakeOwners(t);
  const ids = questionIds(260);
  for (const id of ids) owners.questions.set(id, { id, content: 'c' });
  const command = await postJob(mongo, { request: { questionIds: ids }, context: { kind: 'NONE' } });
  let chunks = 0;
  const broken = faultyMongo(mongo, { method: 'bulkWrite', how: 'refused', times: 1, when: () => ++chunks === 2 });
  const cut = classifierActor(testWorkerDeps(broken.mongo, owners.env));
  t.equal(await run(cut, command), 'failed');
  t.equal(broken.left(), 0);
  t.match(await job(command), { context: 'NONE' }, 'not before the last of them is there');
  await expire(mongo, command);
  const good = actor((asked, _signal, task) => {
    t.equal((task.data as Data).questions?.length, asked.length);
    return undefined;
  }, owners.env);
  t.equal(await run(good, command), 'done');
  t.match(await job(command), { status: 'COMPLETED', context: 'LOADED', counts: { succeeded: 260 } });
});
