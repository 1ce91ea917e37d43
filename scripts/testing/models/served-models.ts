import type { ServerResponse } from 'node:http';
import type { Test } from 'tap';
import { openReceiver, type ReceivedCall } from '#scripts/sandbox/local-server.ts';
import { replyOf } from '#scripts/sandbox/neighbours/provider-replies.ts';
import { askedModels, GOOD, settingsFor } from './asked-models.ts';

/** Answers one request of a served provider; `count` is its number, from 1. */
type Handle = (response: ServerResponse, request: ReceivedCall, count: number) => void;

/**
 * Opens a provider on a real socket that answers by `handle`, and models that repeat a failed call once. `gone` resolves if a caller
 * disconnects before its answer.
 */
export async function servedModels(t: Test, handle: Handle, env: NodeJS.ProcessEnv = {}) {
  let count = 0;
  const gone = Promise.withResolvers<void>();
  const paths: string[] = [];
  const origin = await openReceiver(t, (request, response) => {
    paths.push(request.path);
    response.on('close', () => response.writableFinished || gone.resolve());
    handle(response, request, ++count);
  });
  const settings = settingsFor('local', {
    AI_CLASSIFIER_BASE_URL: `${origin}/v1`,
    AI_CLASSIFIER_MAX_RETRIES: '1',
    ...env,
  });
  return { asked: askedModels(t, settings), paths, gone: gone.promise, origin };
}

export const goodBody = JSON.stringify(replyOf('local', JSON.stringify(GOOD)));

/** Answers 200 with this JSON body, by default with a valid answer. */
export function answerJson(response: ServerResponse, body = goodBody): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(body);
}

export function refusedWith(code: string, nature = 'passing'): { code: string; nature: string } {
  return { code, nature };
}
