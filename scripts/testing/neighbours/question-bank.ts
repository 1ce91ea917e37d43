import { answerJson, openReceiver, type ReceivedCall } from '#scripts/http/local-server.ts';
import { questionsAnswer } from '#scripts/sandbox/neighbours/question-bank.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

/** One request that the question bank received. */
export interface BankRequest extends ReceivedCall {
  body: { questionIds: string[]; fields: string[]; mode: string; overwrite: boolean };
}

export interface TestBank {
  url: string;
  requests: BankRequest[];
  /** Returns the answer to a request. Default: a content for each requested question. */
  answer: (request: BankRequest) => { status?: number; headers?: Record<string, string>; body?: unknown };
}

/** Opens a question bank whose answers the test may change. */
export async function openQuestionBank(t: Teardown): Promise<TestBank> {
  const requests: BankRequest[] = [];
  const url = await openReceiver(t, (call, response) => {
    const asked = { ...call, body: call.json() as BankRequest['body'] };
    requests.push(asked);
    const { status = 200, headers, body } = bank.answer(asked);
    answerJson(response, { status, headers, body });
  });
  const bank: TestBank = {
    url,
    requests,
    answer: (request) => questionsAnswer(request, bankQuestion),
  };
  return bank;
}

/** Returns a question as the question bank does. */
export function bankQuestion(id: string) {
  return { id, content: `<p>Nội dung ${id}</p>`, contentText: `Nội dung ${id}`, options: [{ id: 'A', content: '1' }] };
}
