import { chatCompletion } from '#scripts/http/chat-completion.ts';
import { answerJson, openReceiver } from '#scripts/http/local-server.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

/** One call that the model server received, with the questions that its prompt names. */
export interface ModelCall {
  questionIds: string[];
  /** Returns whether the caller disconnected before the answer. */
  aborted(): boolean;
}

export interface ModelServer {
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
export async function openModelServer(t: Teardown): Promise<ModelServer> {
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
