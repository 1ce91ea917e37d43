import type { ReceivedCall } from './local-server.ts';

/** Path of the question bank for the content of questions that a model may see. */
export const CONTEXT_PATH = '/v1/questions/ai-classify/context';

/** Answers a call of a question bank with the questions that `questionOf` knows, in the order of the call. */
export function questionsAnswer(call: ReceivedCall, questionOf: (id: string) => object | undefined) {
  const { questionIds } = call.json() as { questionIds: readonly string[] };
  const questions = questionIds.flatMap((id) => questionOf(id) ?? []);
  return { status: 200, body: { success: true, data: { questions } } };
}
