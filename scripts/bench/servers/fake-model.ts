import { setTimeout as delay } from 'node:timers/promises';
import { chatCompletion } from '#scripts/http/chat-completion.ts';
import { answerJson, listenLocally, type ReceivedCall } from '#scripts/http/local-server.ts';

/** A model that speaks chat completions and answers each request after a fixed time, `ANSWER_MS`, with a classification or a solution. */
const { PORT, ANSWER_MS = '0' } = process.env;
const USAGE = { promptTokens: 500, completionTokens: 200 };
const SOLUTION = {
  text: 'Áp dụng công thức nguyên hàm cơ bản, ta được kết quả.',
  steps: ['Tìm nguyên hàm', 'Thay cận'],
};

await listenLocally(
  async (call, response) => {
    const arrived = performance.now();
    const body = completion(call);
    await delay(Math.max(0, Number(ANSWER_MS) - (performance.now() - arrived)));
    answerJson(response, { status: 200, body });
  },
  { port: Number(PORT), survivesErrors: true },
);
console.log('fake model is ready');

function completion(call: ReceivedCall) {
  const { model, messages } = call.json() as { model: string; messages: { content: string }[] };
  const data = dataOf(messages.at(-1)?.content ?? '');
  const content = JSON.stringify(Array.isArray(data.questionIds) ? classified(data) : SOLUTION);
  return chatCompletion(model, content, USAGE);
}

interface Asked {
  questionIds?: string[];
  fields?: string[];
}

function classified({ questionIds = [], fields = [] }: Asked) {
  const suggestions = Object.fromEntries(fields.map((field) => [field, { value: 'Tích phân', confidence: 0.9 }]));
  return { items: questionIds.map((questionId) => ({ questionId, suggestions })) };
}

/** Returns the data between the two marker lines of a prompt; empty without them. */
function dataOf(content: string): Asked {
  const json = /^BEGIN DATA \w+\n(.*)\nEND DATA \w+$/ms.exec(content)?.[1];
  return json === undefined ? {} : (JSON.parse(json) as Asked);
}
