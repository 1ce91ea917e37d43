import { answerJson, openReceiver, type ReceivedCall } from '#scripts/http/local-server.ts';
import { questionsAnswer } from '#scripts/http/question-bank.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

/** What the bank was asked. */
export interface BankRequest extends ReceivedCall {
  body: { questionIds: string[]; fields: string[]; mode: string; overwrite: boolean };
}

export interface TestBank {
  url: string;
  requests: BankRequest[];
  /** What it answers; a text for each wanted question unless told otherwise. */
  answer: (request: BankRequest) => { status?: number; headers?: Record<string, string>; body?: unknown };
}

/** A question bank that answers as it is told. */
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

export function bankQuestion(id: string) {
  return { id, content: `<p>Nội dung ${id}</p>`, contentText: `Nội dung ${id}`, options: [{ id: 'A', content: '1' }] };
}
