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
