import type { ServerResponse } from 'node:http';
import type { Test } from 'tap';
import { openReceiver, type ReceivedCall } from '#scripts/http/local-server.ts';
import { askedModels, GOOD, settingsFor } from './asked-models.ts';
import { replyOf } from './provider-replies.ts';

/** What a served provider does with its `count`th request. */
type Handle = (response: ServerResponse, request: ReceivedCall, count: number) => void;

/**
 * A provider on a real socket that answers as it is told, and models that ask it once more after a failure. `gone` resolves when the
 * caller of a request went away before its answer.
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
    AI_CLASSIFIER_ALLOWED_BASE_URLS: origin,
    AI_CLASSIFIER_MAX_RETRIES: '1',
    ...env,
  });
  return { asked: askedModels(t, settings), paths, gone: gone.promise, origin };
}

/** The body of an answer that fits. */
export const goodBody = JSON.stringify(replyOf('local', JSON.stringify(GOOD)));

export function answerJson(response: ServerResponse, body = goodBody): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(body);
}

/** What an ask rejects with that a provider refused. */
export function refusedWith(code: string, nature = 'passing'): { code: string; nature: string } {
  return { code, nature };
}
