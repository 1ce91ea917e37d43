import type { ServerResponse } from 'node:http';
import { mock } from 'node:test';
import t from 'tap';
import { answerJson as answer } from '#scripts/http/local-server.ts';
import { GOOD } from '#testing/models/asked-models.ts';
import { answerJson, refusedWith, servedModels } from '#testing/models/served-models.ts';
import { until } from '#testing/until.ts';

/** Tests the protection of a provider that fails, requests a pause or is slow. */

t.test('a circuit opens after consecutive failures, admits one trial and closes', async (t) => {
  let works = false;
  const env = { AI_CLASSIFIER_CIRCUIT_FAILURES: '2', AI_CLASSIFIER_CIRCUIT_COOLDOWN_MS: '1000' };
  const { asked, paths } = await servedModels(
    t,
    (response) => (works ? answerJson(response) : answer(response, { status: 500 })),
    {
      ...env,
      AI_CLASSIFIER_MAX_RETRIES: '0',
    },
  );
  const { models } = asked;
  for (const failures of [1, 2]) {
    await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_UNAVAILABLE'));
    t.match(await models.status(), { circuit: { consecutiveFailures: failures } });
  }
  t.match(await models.status(), { status: 'ok', circuit: { state: 'open' } });
  asked.pass(400);
  await t.rejects(asked.ask(), { ...refusedWith('AI_PROVIDER_CIRCUIT_OPEN', 'open'), retryAfterMs: 600 });
  t.equal(paths.length, 2, 'an open circuit makes no call');
  asked.pass(600);
  t.match(await models.status(), { circuit: { state: 'half-open' } });
  await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_UNAVAILABLE'), 'the trial fails');
  await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_CIRCUIT_OPEN', 'open'));
  asked.pass(1_000);
  works = true;
  const together = await Promise.allSettled([asked.ask(), asked.ask(), asked.ask()]);
  t.equal(together.filter(({ status }) => status === 'fulfilled').length, 1, 'one trial call, the others fail at once');
  t.equal(paths.length, 4);
  t.match(await models.status(), { circuit: { state: 'closed', consecutiveFailures: 0, openUntil: null } });
  t.match(
    asked.events.map((event) => event.circuit),
    ['closed', 'closed', 'half-open', 'half-open'],
  );
  await asked.ask();
});

t.test('a request whose own failures open the circuit fails with the last of them', async (t) => {
  const { asked } = await servedModels(t, (response) => answer(response, { status: 500 }), {
    AI_CLASSIFIER_CIRCUIT_FAILURES: '1',
    AI_CLASSIFIER_MAX_RETRIES: '2',
  });
  await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_UNAVAILABLE'));
  t.equal(asked.events.length, 1);
});

t.test('a pause that the provider requested binds the next caller, which waits if it is short', async (t) => {
  const { asked, paths } = await servedModels(
    t,
    (response, _request, count) =>
      count === 1 ? answer(response, { status: 429, headers: { 'retry-after': '30' } }) : answerJson(response),
    { AI_CLASSIFIER_MAX_RETRIES: '0' },
  );
  await t.rejects(asked.ask(), { ...refusedWith('AI_PROVIDER_THROTTLED'), retryAfterMs: 30_000 });
  asked.pass(10_000);
  t.match(await asked.models.status(), {
    circuit: { state: 'closed', throttledUntil: new Date(Date.UTC(2026, 0, 1) + 30_000) },
  });
  t.match(await asked.ask(), { json: GOOD });
  t.strictSame([asked.waits, paths.length], [[20_500], 2]);
});

t.test('a request waits for a slot no longer than for an answer', async (t) => {
  const env = { AI_CLASSIFIER_TIMEOUT_MS: '1000', AI_CLASSIFIER_MAX_RETRIES: '0' };
  const { asked, paths } = await servedModels(t, () => undefined, env);
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const ends = Promise.allSettled(Array.from({ length: 33 }, () => asked.ask()));
  await until('every slot is taken', () => paths.length === 16);
  mock.timers.tick(1_000);
  const asks = await ends;
  for (const ask of asks) t.match(ask, { status: 'rejected', reason: refusedWith('AI_PROVIDER_TIMEOUT') });
  t.equal(paths.length, 16, 'requests that timed out in the queue make no call');
});

t.test('the concurrent calls of one process to one provider are limited across all callers', async (t) => {
  let [now, most] = [0, 0];
  const held: ServerResponse[] = [];
  const full = Promise.withResolvers<void>();
  const { asked } = await servedModels(t, (response) => {
    now++;
    most = Math.max(most, now);
    held.push(response);
    if (held.length >= 16) full.resolve();
    if (held.length > 16) release();
  });
  const release = () => {
    for (const response of held.splice(0)) {
      now--;
      answerJson(response);
    }
  };
  const asks = Array.from({ length: 40 }, () => asked.ask());
  await full.promise;
  release();
  const pump = setInterval(release, 5);
  await Promise.all(asks).finally(() => clearInterval(pump));
  t.equal(most, 16);
});
