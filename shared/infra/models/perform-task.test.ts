import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { mockAnswer } from '#shared/classifier/mock.ts';
import { type TaskPayloads, taskRequest } from '#shared/classifier/tasks/envelope.ts';
import type { ModelAnswer, ModelTask } from '#shared/classifier/tasks/task.ts';
import { openTaskModels } from './perform-task.ts';

const SCOPE = { organizationId: 'org-1', actorId: 'teacher-1', requestId: 'req-1', jobId: null, batchIndex: null };
const CLASSIFY: TaskPayloads['classify'] = {
  questionIds: ['q-1', 'q-2'],
  fields: ['topic'],
  overwrite: false,
  mode: 'SUGGEST',
  threshold: 0.7,
};
const NEVER = new AbortController().signal;

/** Opens task models whose provider answers with what `answer` returns, and records its calls. */
function taskModels(answer: (task: ModelTask, signal: AbortSignal) => unknown = mockAnswer) {
  const asked: { task: ModelTask; usage: object; features: object }[] = [];
  const listeners = new Map<string, Set<() => void>>();
  const models = openTaskModels({
    async ask(task, { usageEvent: usage, features }, signal): Promise<ModelAnswer> {
      asked.push({ task, usage, features });
      const json = await answer(task, signal);
      return { json, usage: { inputTokens: 1, outputTokens: null }, provider: 'mock', model: 'mock-1' };
    },
    listen(key, cancelled) {
      listeners.set(key, (listeners.get(key) ?? new Set()).add(cancelled));
      return () => listeners.get(key)?.delete(cancelled);
    },
    schemas: loadSchemas(),
    now: () => Date.UTC(2026, 10, 27),
  });
  const cancel = (key: string) => void listeners.get(key)?.forEach((cancelled) => void cancelled());
  return { models, asked, cancel, listening: (key: string) => listeners.get(key)?.size ?? 0 };
}

t.test('the prompt is made from the payload, and the usage event and features from their members', async (t) => {
  const { models, asked } = taskModels();
  const request = taskRequest('classify', CLASSIFY, { ...SCOPE, taskId: 'j-1:0', jobId: 'j-1', batchIndex: 0 });
  const result = await models.perform(request, NEVER);
  t.match(result, {
    taskId: 'j-1:0',
    kind: 'classify',
    provider: 'mock',
    usage: { inputTokens: 1, outputTokens: null },
    finishedAt: '2026-11-27T00:00:00.000Z',
    classify: { items: [{ questionId: 'q-1' }, { questionId: 'q-2' }], errors: [] },
  });
  const [{ task, usage, features } = {}] = asked;
  t.match(task?.data, { questionIds: ['q-1', 'q-2'], fields: ['topic'], overwrite: false });
  t.strictSame(usage, request.usageEvent);
  t.strictSame(features, request.features);
});

t.test('a request that does not fit its schema calls no model', async (t) => {
  const { models, asked } = taskModels();
  const scope = { ...SCOPE, taskId: 't-1' };
  const tooMany = { ...CLASSIFY, questionIds: ['1', '2', '3', '4', '5', '6'] };
  await t.rejects(models.perform(taskRequest('classify', tooMany, scope), NEVER), { message: /classify\/questionIds/ });
  const mixed = { ...taskRequest('classify', CLASSIFY, scope), explain: { content: 'x' } };
  await t.rejects(models.perform(mixed, NEVER), { message: /exactly the member/ });
  t.strictSame(asked, []);
});

t.test("a result that does not fit its schema is the provider's invalid answer", async (t) => {
  const long = { text: 'x'.repeat(20_001), steps: ['y'] };
  const { models } = taskModels(() => long);
  const request = taskRequest('explain', { content: '1 + 1' }, { ...SCOPE, taskId: 't-1' });
  await t.rejects(models.perform(request, NEVER), {
    name: 'ProviderFailure',
    code: 'AI_PROVIDER_INVALID_RESPONSE',
    nature: 'refused',
    message: /explain\/text must have at most 20000 characters/,
  });
});

t.test('a cancellation aborts every task with its key and no other, and no task listens afterwards', async (t) => {
  const hanging = (_task: ModelTask, signal: AbortSignal) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const { models, cancel, listening } = taskModels(hanging);
  const ofJob = (jobId: string, batchIndex: number) =>
    models.perform(
      taskRequest('classify', CLASSIFY, {
        ...SCOPE,
        taskId: `${jobId}:${batchIndex}`,
        cancellationKey: jobId,
        jobId,
        batchIndex,
      }),
      NEVER,
    );
  const cancelled = [ofJob('j-1', 0), ofJob('j-1', 1)].map((task) =>
    t.rejects(task, { name: 'TaskCancelled', message: 'task cancelled: j-1' }),
  );
  const other = ofJob('j-2', 0);
  t.equal(listening('j-1'), 2);
  cancel('j-1');
  await Promise.all(cancelled);
  t.strictSame([listening('j-1'), listening('j-2')], [0, 1]);
  cancel('j-2');
  await t.rejects(other, { name: 'TaskCancelled' });

  const gone = new AbortController();
  const preview = models.perform(taskRequest('explain', { content: 'x' }, { ...SCOPE, taskId: 't-1' }), gone.signal);
  gone.abort(new Error('the client left'));
  await t.rejects(preview, { message: 'the client left' });
  t.equal(listening('preview:t-1'), 0);
});
