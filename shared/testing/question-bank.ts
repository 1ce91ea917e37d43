import { createServer, type IncomingMessage } from 'node:http';
import type { Teardown } from './open-test-mongo.ts';

/** What the bank was asked. */
export interface BankRequest {
  path: string;
  headers: IncomingMessage['headers'];
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
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    const asked = { path: request.url ?? '', headers: request.headers, body };
    requests.push(asked);
    const { status = 200, headers = {}, body: answer } = bank.answer(asked);
    const text = typeof answer === 'string' ? answer : JSON.stringify(answer);
    // Apart: restify's own writeHead, in a process that has loaded it, gives nothing back.
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the bank has no port');
  const bank: TestBank = {
    ...{ url: `http://127.0.0.1:${address.port}`, requests },
    answer: ({ body }) => ({ body: { success: true, data: { questions: body.questionIds.map(bankQuestion) } } }),
  };
  return bank;
}

export function bankQuestion(id: string) {
  return { id, content: `<p>Nội dung ${id}</p>`, contentText: `Nội dung ${id}`, options: [{ id: 'A', content: '1' }] };
}
