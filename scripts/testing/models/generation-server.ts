import { answerJson, openReceiver } from '#scripts/sandbox/local-server.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

/**
 * Opens a chat-completions server at 100 tokens in and 200 out. It answers a request that names questions of `postJob` with a sure
 * classification of each, and every other with two numeric questions.
 */
export async function openGenerationServer(t: Teardown) {
  let [calls, batches] = [0, 0];
  const origin = await openReceiver(t, async (call, response) => {
    const ids = [...new Set(call.text.match(/q-\d+-of-[\w-]+/g))];
    calls += 1;
    if (ids.length > 0) batches += 1;
    await server.before(ids.length > 0);
    if (response.destroyed) return;
    const content = server.next.shift() ?? JSON.stringify(ids.length > 0 ? goodAnswer(ids) : GENERATED);
    const body = chatCompletion('test-model', content, { promptTokens: 100, completionTokens: 200 });
    answerJson(response, { status: 200, body });
  });
  const server = {
    /** Calls that have arrived, and those of them that classify a batch of questions. */
    calls: () => calls,
    batches: () => batches,
    /** Answers that precede the usual one. */
    next: [] as string[],
    /** Runs before each answer; by default the server answers at once. */
    before: (_classifies: boolean): Promise<void> | undefined => undefined,
    /** Environment that names this server as the model provider. */
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

const question = (n: number) => ({ content: `${n} + ${n} = ?`, explanation: 'Cộng.', value: 2 * n, tolerance: 0 });
const GENERATED = { questions: [question(1), question(2)] };

/** Returns a valid answer for these questions, with high confidence. */
export function goodAnswer(ids: readonly string[]) {
  const sure = (value: string) => ({ value, confidence: 0.9 });
  const suggestions = { topic: sure('Hàm số'), difficulty: sure('EASY') };
  return { items: ids.map((questionId) => ({ questionId, suggestions })) };
}
