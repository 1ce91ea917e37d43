import nock from 'nock';
import type { Test } from 'tap';
import { type AskedModels, askedModels, GOOD, SENTINEL_KEY, settingsFor } from './asked-models.ts';
import { ASKED_AT, type HttpProvider, replyOf } from './provider-replies.ts';

/** Keeps a test file off the network: whatever is not mocked is refused, and no mock outlives its test. */
export function mockProviders(t: Test): void {
  nock.disableNetConnect();
  t.teardown(() => nock.restore());
  t.afterEach(() => nock.cleanAll());
}

/** The next call to this provider. */
export const at = (provider: HttpProvider): nock.Interceptor =>
  nock(ASKED_AT[provider].origin).post(ASKED_AT[provider].path);

/** The next call to it that wants a stream. */
export const streamAt = (provider: HttpProvider): nock.Interceptor =>
  nock(ASKED_AT[provider].origin).post(ASKED_AT[provider].streamPath);

/** The body of an answer that fits. */
export const good = (provider: HttpProvider) => replyOf(provider, JSON.stringify(GOOD));

export const opened = (t: Test, provider: HttpProvider, env: NodeJS.ProcessEnv = {}): AskedModels =>
  askedModels(t, settingsFor(provider, env));

/** Writes down what a mock is asked with: a function as a reply never gets an answer out of a patched fetch. */
export function keepBodies(scope: nock.Scope, bodies: string[]): void {
  scope.on('request', (_request, _interceptor, body) => void bodies.push(String(body)));
}

/** Fails unless the ask fails like this, or when the key is in anything that is left of it; gives the failure. */
export async function failed(t: Test, asked: AskedModels, expected: { code: string; nature: string }) {
  const failure = await asked.ask().then(
    () => t.fail('there was an answer'),
    (error: Error & { retryAfterMs?: number | null }) => error,
  );
  t.match(failure, expected);
  t.notMatch(JSON.stringify([failure, String(failure), asked.events, asked.log.lines]), SENTINEL_KEY);
  return failure as Error & { retryAfterMs: number | null };
}
