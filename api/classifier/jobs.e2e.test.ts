import type { Test } from 'tap';
import t from 'tap';
import { answerJson, openReceiver } from '#scripts/sandbox/local-server.ts';
import { testConfig } from '#testing/actors/test-kernel.ts';
import { openStream } from '#testing/clients/open-stream.ts';
import { checkedApi } from '#testing/doors/checked-api.ts';
import { chatCompletion } from '#testing/models/generation-server.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { questionIds } from '#testing/stored/stored-model-work.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';
import { gate, until } from '#testing/until.ts';

/** One call that the model server received, with the questions that its prompt names. */
interface ModelCall {
  questionIds: string[];
  /** Returns whether the caller disconnected before the answer. */
  aborted(): boolean;
}

interface ModelServer {
  /** Value for AI_CLASSIFIER_BASE_URL. */
  url: string;
  env: NodeJS.ProcessEnv;
  calls: ModelCall[];
  /** Called before each answer; may wait or return the status. Default: 200 at once. */
  before: (call: ModelCall) => Promise<number | undefined> | number | undefined;
  /** Returns the highest number of concurrent calls. */
  busiest: () => number;
}

/** Opens a server that speaks chat completions and classifies the ids in the prompt, `q-<n>-of-<x>`. */
async function openModelServer(t: Teardown): Promise<ModelServer> {
  const calls: ModelCall[] = [];
  let [atOnce, busiest] = [0, 0];
  const origin = await openReceiver(t, async (received, response) => {
    const { messages } = received.json() as { messages: readonly { content: string }[] };
    const prompt = messages.map(({ content }) => content).join('\n');
    const questionIds = [...new Set<string>(prompt.match(/q-\d+-of-[\w-]+/g) ?? [])];
    const call = { questionIds, aborted: () => response.destroyed && !response.writableEnded };
    calls.push(call);
    atOnce += 1;
    busiest = Math.max(busiest, atOnce);
    const status = (await modelServer.before(call)) ?? 200;
    atOnce -= 1;
    if (response.destroyed) return;
    answerJson(response, { status, body: status === 200 ? completion(questionIds) : { error: { message: 'busy' } } });
  });
  const modelServer: ModelServer = {
    url: `${origin}/v1`,
    calls,
    before: () => undefined,
    busiest: () => busiest,
    env: {
      AI_CLASSIFIER_PROVIDER: 'local',
      AI_CLASSIFIER_MODEL: 'test-model',
      AI_CLASSIFIER_BASE_URL: `${origin}/v1`,
      AI_CLASSIFIER_WORKER_ENABLED: '1',
      AI_CLASSIFIER_MAX_RETRIES: '0',
      AI_CLASSIFIER_WORKER_RETRY_BASE_DELAY_MS: '50',
      AI_CLASSIFIER_WORKER_POLL_INTERVAL_MS: '50',
    },
  };
  return modelServer;
}

function completion(questionIds: readonly string[]) {
  const sure = (value: string) => ({ value, confidence: 0.9 });
  const items = questionIds.map((questionId) => ({
    questionId,
    suggestions: { topic: sure(`topic of ${questionId}`), difficulty: sure('EASY') },
  }));
  return chatCompletion('test-model', JSON.stringify({ items }), { promptTokens: 100, completionTokens: 20 });
}

const TEACHER = { 'x-actor-id': 'teacher-1', 'x-actor-role': 'TEACHER', 'x-organization-id': 'org-1' };
const JOBS = '/v1/ai-classifier/jobs';

async function setUp(t: Test, env: NodeJS.ProcessEnv = {}, workers = 1, apart: readonly string[] = []) {
  const models = await openModelServer(t);
  const bank = await openNeighbours(t);
  const cluster = await startCluster(t, {
    inside: true,
    apart,
    workers: Array.from({ length: workers }, () => 'classifier' as const),
    env: { ...models.env, QUESTION_BANK_SERVICE_URL: bank.url, ...env },
  });
  const call = await checkedApi((method, target, options) => cluster.request(method, target, options));
  const create = async (ids: readonly string[], change = {}) => {
    const body = { questionIds: ids, fields: ['topic', 'difficulty'], mode: 'AUTO', ...change };
    return (await call('POST', JOBS, { headers: TEACHER, body })).data.job.id as string;
  };
  const job = async (id: string) => (await call('GET', `${JOBS}/${id}`, { headers: TEACHER })).data.job;
  const ended = (id: string, status: string) =>
    until(`${id} is ${status}`, async () => {
      const now = await job(id);
      return now.status === status && now;
    });
  const act = (id: string, verb: 'cancel' | 'retry') => call('POST', `${JOBS}/${id}/${verb}`, { headers: TEACHER });
  return { models, bank, cluster, call, create, job, ended, act };
}

t.test('two thousand questions: each sent to the model once, in batches of five, and streamed in order', async (t) => {
  const { models, bank, cluster, create, job } = await setUp(t, { AI_CLASSIFIER_BATCH_CONCURRENCY: '5' }, 2);
  const ids = questionIds(2_000);
  const first = gate();
  models.before = () => first.opened.then(() => undefined);
  const id = await create(ids, { filters: { source: 'e2e' } });
  t.equal(bank.calls.length, 1);
  const stream = await openStream(t, `${cluster.door().url}${JOBS}/${id}/events`, TEACHER);
  t.match(await stream.next('snapshot'), { data: { job: { id } } });
  await until('five batches are at the provider', () => models.calls.length === 5);
  first.open();
  await until('the stream ended', () => stream.ended(), 300_000);
  t.match(stream.events.at(-1), { event: 'job.updated', data: { job: { status: 'COMPLETED' } } });
  const updates = stream.events.filter(({ event }) => event === 'job.updated').length;
  t.ok(updates > 2, `${updates} updates`);

  t.equal(models.calls.length, 400);
  t.ok(models.calls.every((call) => call.questionIds.length === 5));
  t.equal(new Set(models.calls.flatMap((call) => call.questionIds)).size, 2_000);
  t.equal(models.busiest(), 5);
  const { result, progress } = await job(id);
  t.strictSame(
    result.items.map((item: { questionId: string }) => item.questionId),
    ids,
  );
  t.match(result, { errorCount: 0, usage: { inputTokens: 40_000, outputTokens: 8_000 } });
  t.match(progress, { total: 2_000, succeeded: 2_000, failed: 0, batchesDone: 400, percent: 100 });
});

t.test('a field of the bank’s own is requested of bank and model, and returned', async (t) => {
  const fields = ['chapter', 'constructor', 'tags'];
  const { bank, create, ended } = await setUp(t, { AI_CLASSIFIER_PROVIDER: 'mock', AI_CLASSIFIER_MODEL: 'mock-1' });
  const id = await create(questionIds(6), { fields });
  const { result, scope } = await ended(id, 'COMPLETED');
  t.strictSame(scope.fields, fields);
  t.match(bank.calls[0], { body: { fields } });
  for (const { suggestions } of result.items) t.strictSame(Object.keys(suggestions), fields);
});

t.test('a cancel aborts the calls in progress, and no other call follows', async (t) => {
  const { models, create, ended, act } = await setUp(t, { AI_CLASSIFIER_BATCH_CONCURRENCY: '2' });
  models.before = () => new Promise<undefined>(() => undefined);
  const id = await create(questionIds(50));
  await until('two batches are at the provider', () => models.calls.length === 2);
  await act(id, 'cancel');
  await until('both calls were aborted', () => models.calls.every((call) => call.aborted()));
  t.match(await ended(id, 'CANCELLED'), { result: null, progress: { processed: 0 } });
  t.equal(models.calls.length, 2);

  models.before = () => undefined;
  await act(id, 'retry');
  t.match(await ended(id, 'COMPLETED'), { progress: { succeeded: 50 } });
  t.equal(models.calls.length, 12);
});

t.test('a worker that is killed midway repeats only the batches whose outcome was not stored', async (t) => {
  const env = { AI_CLASSIFIER_BATCH_CONCURRENCY: '3', AI_CLASSIFIER_WORKER_LEASE_MS: '1500' };
  const { models, cluster, create, job, ended } = await setUp(t, env, 1, ['classifier']);
  const ids = questionIds(100);
  models.before = () => (models.calls.length <= 10 ? undefined : new Promise<undefined>(() => undefined));
  const id = await create(ids);
  await until('three batches hang at the provider', () => models.calls.length === 13);
  await until('each answered batch is stored', async () => (await job(id)).progress.batchesDone === 10);
  await cluster.kill('classifier');
  models.before = () => undefined;
  await cluster.start('classifier');
  t.match(await ended(id, 'COMPLETED'), { progress: { succeeded: 100 } });
  t.equal(models.calls.length, 23, 'thirteen before, three of them again, and the rest');
});

t.test('the job of a killed worker goes on in another one once its lease of 15 s has lapsed', async (t) => {
  const { leaseMs, pollIntervalMs } = testConfig().classifier.worker;
  t.ok(leaseMs + pollIntervalMs < 20_000, 'lease and poll of the defaults');
  const names = ['classifier', 'classifier2'];
  const { models, cluster, create, ended } = await setUp(t, {}, 2, names);
  models.before = () => new Promise<undefined>(() => undefined);
  const id = await create(questionIds(5));
  const commands = cluster.mongo.collection('commands');
  const claim = async () => {
    const command = await commands.findOne({ subject: id });
    if (command === null) throw new Error('the job has no command');
    const { localTime } = await cluster.mongo.command({ hello: 1 });
    return { command, leftMs: command.lockedUntil - localTime };
  };

  await until('the worker calls the provider', () => models.calls.length === 1);
  const { command: first } = await claim();
  const renewed = await until('the lease is renewed', async () => {
    const { command, leftMs } = await claim();
    if (leftMs > 15_000) throw new Error(`the lease ends in ${leftMs} ms`);
    return command.lockedUntil > first.lockedUntil && command;
  });
  t.equal(renewed.fence, first.fence);

  await cluster.kill(names.find((name) => renewed.workerId.includes(`:${cluster.pid(name)}:`)) ?? '');
  models.before = () => undefined;
  // Ends the lease, as time would. No worker has claimed the command before.
  const lapse = await commands.updateOne({ subject: id, fence: first.fence }, [{ $set: { lockedUntil: '$$NOW' } }]);
  t.equal(lapse.modifiedCount, 1);
  t.match(await ended(id, 'COMPLETED'), { progress: { succeeded: 5 } });
  t.match((await claim()).command, { status: 'DONE', fence: first.fence + 1, attempts: 2 });
  t.equal(models.calls.length, 2, 'the batch without an outcome is sent again');
});

t.test('a worker that receives SIGTERM releases its job without spending the attempt', async (t) => {
  const { models, cluster, create, ended } = await setUp(t, { SHUTDOWN_TIMEOUT_MS: '4000' });
  models.before = () => new Promise<undefined>(() => undefined);
  const id = await create(questionIds(5));
  await until('the worker calls the provider', () => models.calls.length === 1);
  await cluster.kill('classifier', 'SIGTERM');
  const command = await cluster.mongo.collection('commands').findOne({ subject: id });
  t.match(command, { status: 'PENDING', attempts: 0, lockedUntil: null });
  models.before = () => undefined;
  await cluster.start('classifier');
  t.match(await ended(id, 'COMPLETED'), { progress: { succeeded: 5 } });
});

t.test('an unavailable provider is called again, and the job ends after its last attempt', async (t) => {
  const { models, call, create, ended, act } = await setUp(t, {
    AI_CLASSIFIER_WORKER_MAX_ATTEMPTS: '3',
    AI_CLASSIFIER_CIRCUIT_FAILURES: '1000',
  });
  const down = questionIds(5);
  models.before = () => 503;
  const failed = await create(down);
  t.match(await ended(failed, 'FAILED'), { error: { code: 'AI_PROVIDER_UNAVAILABLE' }, result: { errorCount: 5 } });
  t.equal(models.calls.length, 3);

  const half = questionIds(15);
  models.before = ({ questionIds: asked }) => (asked.includes(half[0] ?? '') ? undefined : 503);
  const partial = await create(half);
  t.match(await ended(partial, 'COMPLETED'), { error: null, progress: { succeeded: 5, failed: 10 } });
  const { data } = await call('GET', `${JOBS}/${partial}/errors?limit=3&offset=4`, { headers: TEACHER });
  t.match(data, { total: 10, limit: 3, offset: 4 });
  t.strictSame(
    data.items.map(({ questionId, batchIndex }: Record<string, unknown>) => [questionId, batchIndex]),
    half.slice(9, 12).map((questionId, n) => [questionId, n === 0 ? 1 : 2]),
  );

  models.before = () => undefined;
  await act(failed, 'retry');
  t.match(await ended(failed, 'COMPLETED'), { error: null, progress: { succeeded: 5 } });
});

t.test('a provider refusal fails only its own batch', async (t) => {
  const { models, create, ended } = await setUp(t);
  const ids = questionIds(15);
  models.before = ({ questionIds: asked }) => (asked.includes(ids[5] ?? '') ? 400 : undefined);
  const id = await create(ids);
  t.match(await ended(id, 'COMPLETED'), { progress: { succeeded: 10, failed: 5 } });
  t.equal(models.calls.length, 3);
});

t.test('no attempt is spent while the circuit of the provider is open', async (t) => {
  const { models, cluster, create, ended } = await setUp(t, {
    AI_CLASSIFIER_WORKER_MAX_ATTEMPTS: '3',
    AI_CLASSIFIER_CIRCUIT_FAILURES: '1',
    AI_CLASSIFIER_CIRCUIT_COOLDOWN_MS: '700',
  });
  models.before = () => (models.calls.length === 1 ? 503 : undefined);
  const id = await create(questionIds(10));
  t.match(await ended(id, 'COMPLETED'), { progress: { succeeded: 10 } });
  const command = await cluster.mongo.collection('commands').findOne({ subject: id });
  t.match(command, { status: 'DONE', attempts: 2 });
});
