import nock from 'nock';
import type { Test } from 'tap';
import { type HttpProvider, replyOf } from '#scripts/sandbox/neighbours/provider-replies.ts';
import { ASKED_AT, type AskedModels, askedModels, GOOD, SENTINEL_KEY, settingsFor } from './asked-models.ts';

/** Disables the network for a test file: calls without a mock fail, and mocks end with their test. */
export function mockProviders(t: Test): void {
  nock.disableNetConnect();
  t.teardown(() => nock.restore());
  t.afterEach(() => nock.cleanAll());
}

export const at = (provider: HttpProvider): nock.Interceptor =>
  nock(ASKED_AT[provider].origin).post(ASKED_AT[provider].path);

export const streamAt = (provider: HttpProvider): nock.Interceptor =>
  nock(ASKED_AT[provider].origin).post(ASKED_AT[provider].streamPath);

export const good = (provider: HttpProvider) => replyOf(provider, JSON.stringify(GOOD));

export const opened = (t: Test, provider: HttpProvider, env: NodeJS.ProcessEnv = {}): AskedModels =>
  askedModels(t, settingsFor(provider, env));

/** Records the request bodies of a mock. A reply function cannot do that: with a patched fetch, its answer never arrives. */
export function keepBodies(scope: nock.Scope, bodies: string[]): void {
  scope.on('request', (_request, _interceptor, body) => void bodies.push(String(body)));
}

/** Requires that the model call fails as expected and that neither failure, events nor log contain the key. Returns the failure. */
export async function failed(t: Test, asked: AskedModels, expected: { code: string; nature: string }) {
  const failure = await asked.ask().then(
    () => t.fail('there was an answer'),
    (error: Error & { retryAfterMs?: number | null }) => error,
  );
  t.match(failure, expected);
  t.notMatch(JSON.stringify([failure, String(failure), asked.events, asked.log.lines]), SENTINEL_KEY);
  return failure as Error & { retryAfterMs: number | null };
}
