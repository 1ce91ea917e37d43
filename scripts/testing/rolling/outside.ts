import { answerJson, openReceiver } from '#scripts/sandbox/local-server.ts';
import { chatCompletion } from '#testing/models/generation-server.ts';
import { type Neighbours, openNeighbours } from '#testing/neighbours/neighbours.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

/** The services around a cluster: neighbours, receivers and the model provider. */
export interface Outside {
  neighbours: Neighbours;
  /** True: the notification service, the webhook and the wallet's transactions answer 503. */
  isDown: boolean;
  /** Calls that reached the model provider. */
  modelCalls: { classifies: boolean }[];
  /** Returns true for a call that the provider must not answer yet. */
  holds: (call: { classifies: boolean }) => boolean;
  env: NodeJS.ProcessEnv;
}

const HOLD_MS = 50;

/** Opens the services. */
export async function openOutside(t: Teardown): Promise<Outside> {
  const neighbours = await openNeighbours(t);
  const modelCalls: Outside['modelCalls'] = [];
  const model = await openReceiver(t, (received, response) => {
    const { messages } = received.json() as { messages: readonly { content: string }[] };
    const prompt = messages.map(({ content }) => content).join('\n');
    const ids = [...new Set<string>(prompt.match(/q-\d+-of-[\w-]+/g) ?? [])];
    const call = { classifies: ids.length > 0 };
    modelCalls.push(call);
    const content = JSON.stringify(call.classifies ? classified(ids) : generated());
    const body = chatCompletion('test-model', content, { promptTokens: 100, completionTokens: 200 });
    const answer = () => {
      if (response.destroyed) return;
      if (outside.holds(call)) setTimeout(answer, HOLD_MS);
      else answerJson(response, { status: 200, body });
    };
    answer();
  });
  const outside: Outside = {
    neighbours,
    isDown: false,
    modelCalls,
    holds: () => false,
    env: {
      ...neighbours.env,
      ...neighbours.ownersEnv,
      ...neighbours.webhookEnv,
      QUESTION_BANK_SERVICE_URL: neighbours.url,
      AI_GENERATION_USAGE_WALLET_ENABLED: '1',
      AI_CLASSIFIER_PROVIDER: 'local',
      AI_CLASSIFIER_MODEL: 'test-model',
      AI_CLASSIFIER_BASE_URL: `${model}/v1`,
      AI_CLASSIFIER_WORKER_ENABLED: '1',
      AI_CLASSIFIER_BATCH_CONCURRENCY: '1',
      AI_CLASSIFIER_MAX_RETRIES: '0',
    },
  };
  neighbours.answer = ({ method, path }) => {
    const fails = /^\/hook|\/transactions$|\/v1\/events\/notification/.test(path);
    return outside.isDown && method === 'POST' && fails ? { status: 503 } : undefined;
  };
  return outside;
}

function classified(ids: readonly string[]) {
  const sure = (value: string) => ({ value, confidence: 0.9 });
  return {
    items: ids.map((questionId) => ({
      questionId,
      suggestions: { topic: sure('Hàm số'), difficulty: sure('EASY') },
    })),
  };
}

function generated() {
  const question = (n: number) => ({ content: `${n} + ${n} = ?`, explanation: 'Cộng.', value: 2 * n, tolerance: 0 });
  return { questions: [question(1), question(2)] };
}
