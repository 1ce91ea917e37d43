import { answerJson, openReceiver } from '#scripts/sandbox/local-server.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

export interface GenerationServer {
  /** Environment that names this server as the model provider. */
  env: NodeJS.ProcessEnv;
  /** Calls that have arrived. */
  calls: () => number;
  /** Answers that precede the usual one. */
  next: string[];
  /** Runs before each answer; by default the server answers at once. */
  before: () => Promise<void> | undefined;
}

/** Opens a chat-completions server that answers every request with two numeric questions, at 100 tokens in and 200 out. */
export async function openGenerationServer(t: Teardown): Promise<GenerationServer> {
  let calls = 0;
  const question = (n: number) => ({ content: `${n} + ${n} = ?`, explanation: 'Cộng.', value: 2 * n, tolerance: 0 });
  const usual = JSON.stringify({ questions: [question(1), question(2)] });
  const origin = await openReceiver(t, async (_call, response) => {
    calls += 1;
    await server.before();
    if (response.destroyed) return;
    const content = server.next.shift() ?? usual;
    const body = chatCompletion('test-model', content, { promptTokens: 100, completionTokens: 200 });
    answerJson(response, { status: 200, body });
  });
  const server: GenerationServer = {
    calls: () => calls,
    next: [],
    before: () => undefined,
    env: {
      AI_CLASSIFIER_PROVIDER: 'local',
      AI_CLASSIFIER_MODEL: 'test-model',
      AI_CLASSIFIER_BASE_URL: `${origin}/v1`,
      AI_CLASSIFIER_MAX_RETRIES: '0',
    },
  };
  return server;
}

/** Returns the body of a chat completion whose answer is this text. */
export function chatCompletion(
  model: string,
  content: string,
  { promptTokens, completionTokens }: { promptTokens: number; completionTokens: number },
) {
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_800_000_000,
    model,
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
    },
  };
}
