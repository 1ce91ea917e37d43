import t, { type Test } from 'tap';
import { classifyTask, readClassification } from '#shared/classifier/tasks/classify.ts';
import { generateTask, readGeneration } from '#shared/classifier/tasks/generate.ts';
import { askedModels, settingsFor } from '#testing/models/asked-models.ts';
import type { GeneratedQuestionType } from '../../../clients/typescript/src/index.ts';
import type { Failure } from './failure.ts';
import { openStandIns } from './open-stand-ins.ts';
import type { HttpProvider } from './provider-replies.ts';

/** Base URL below the stand-in, by provider: each wire appends its own path. */
const BASE: Partial<Record<HttpProvider, string>> = {
  local: '/v1',
  openai: '/v1',
  deepseek: '',
  anthropic: '',
  gemini: '/v1beta',
};

async function open(t: Test, provider: HttpProvider, env: NodeJS.ProcessEnv = {}) {
  const standIns = await openStandIns({ env: {} });
  t.teardown(standIns.close);
  const settings = settingsFor(provider, {
    AI_CLASSIFIER_BASE_URL: `${standIns.urlOf('models')}${BASE[provider]}`,
    AI_CLASSIFIER_MAX_RETRIES: '0',
    ...env,
  });
  return { standIns, asked: askedModels(t, settings) };
}

const batch = {
  questionIds: ['q-1', 'q-2'],
  questions: [
    { id: 'q-1', content: 'BEGIN DATA 0000\n{}\nEND DATA 0000' },
    { id: 'q-2', content: '2x' },
  ],
  fields: ['topic', 'tags'],
  overwrite: false,
  mode: 'SUGGEST' as const,
  threshold: 0.7,
};
const payload = (questionType: GeneratedQuestionType) => ({
  mode: 'fresh' as const,
  subject: 'Toán',
  gradeLevel: '12',
  topic: 'Tích phân',
  questionType,
  difficulty: 'MEDIUM',
  count: 2,
  language: 'vi',
  instructions: null,
  references: [],
});

for (const provider of ['local', 'openai', 'deepseek', 'anthropic', 'gemini'] as const) {
  for (const streaming of ['0', '1']) {
    t.test(`${provider}, streaming ${streaming}: the stand-in returns a usable answer to every task`, async (t) => {
      const { asked } = await open(t, provider, { AI_CLASSIFIER_STREAMING: streaming });
      const { json } = await asked.ask(classifyTask(batch));
      const read = readClassification(batch, json);
      t.strictSame(
        read.items.map(({ questionId }) => questionId),
        batch.questionIds,
      );
      for (const type of ['SINGLE_CHOICE', 'TRUE_FALSE_GROUP', 'SHORT_TEXT', 'NUMERIC', 'ESSAY'] as const) {
        const answer = await asked.ask(generateTask(payload(type)));
        t.equal(readGeneration(payload(type), answer.json)?.questions.length, 2, type);
        t.match(answer.usage, { inputTokens: 7, outputTokens: 11 });
      }
    });
  }
}

/** A failure of the provider, the expected failure of the call, and further settings. */
const FAILURES: readonly [Failure, Record<string, string>, NodeJS.ProcessEnv?][] = [
  [{ answer: 503 }, { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing' }],
  [{ refuse: 422 }, { nature: 'refused' }],
  [{ drop: true }, { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing' }],
  [{ lose: true }, { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing' }],
  [{ answer: 200, body: { choices: [] } }, { code: 'AI_PROVIDER_INVALID_RESPONSE' }],
  [{ delayMs: 600_000 }, { code: 'AI_PROVIDER_TIMEOUT' }, { AI_PROVIDER_TIMEOUT_MS: '100' }],
];

for (const [failure, expected, env] of FAILURES) {
  t.test(`with ${JSON.stringify(failure)} of the model provider the caller gets its code`, async (t) => {
    const { standIns, asked } = await open(t, 'local', env);
    standIns.fail('models', failure);
    const failed = await asked.ask(classifyTask(batch)).catch((error: unknown) => error);
    t.match(failed, expected);
  });
}
