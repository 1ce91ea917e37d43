import t from 'tap';
import { GOOD } from '#testing/models/asked-models.ts';
import { failed, good, mockProviders, opened, streamAt } from '#testing/models/mocked-provider.ts';
import { HTTP_PROVIDERS, streamOf } from '#testing/models/provider-replies.ts';

mockProviders(t);

for (const provider of HTTP_PROVIDERS) {
  t.test(`${provider}: a streamed answer equals the answer without streaming`, async (t) => {
    for (const without of [undefined, 'done', 'usage'] as const) {
      const body = streamOf(provider, JSON.stringify(GOOD), without === undefined ? {} : { without });
      streamAt(provider).reply(200, body, { 'content-type': 'text/event-stream; charset=utf-8' });
      const asked = opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' });
      const answer = await asked.ask();
      t.strictSame(answer.json, GOOD);
      const counts =
        without === 'usage' ? { inputTokens: null, outputTokens: null } : { inputTokens: 7, outputTokens: 11 };
      t.strictSame(answer.usage, counts, String(without));
    }
  });

  t.test(`${provider}: a stream without its end is an incomplete answer`, async (t) => {
    streamAt(provider)
      .times(3)
      .reply(200, streamOf(provider, JSON.stringify(GOOD), { without: 'end' }), {
        'content-type': 'text/event-stream',
      });
    const asked = opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' });
    await failed(t, asked, { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'passing' });
    t.equal(asked.events.length, 3);
    t.match(await asked.models.status(), { circuit: { consecutiveFailures: 3 } });
  });

  t.test(`${provider}: an error event in a stream fails the call`, async (t) => {
    const overloaded =
      provider === 'anthropic'
        ? `event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n`
        : `data: {"error":{"code":503,"type":"server_error","message":"x"},"choices":[]}\n\ndata: [DONE]\n\n`;
    streamAt(provider).reply(200, overloaded, { 'content-type': 'text/event-stream' });
    streamAt(provider).reply(200, streamOf(provider, JSON.stringify(GOOD)), { 'content-type': 'text/event-stream' });
    const asked = opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' });
    t.strictSame((await asked.ask()).json, GOOD);
    t.match(asked.events, [{ outcome: 'failure', errorCode: 'AI_PROVIDER_UNAVAILABLE' }, { outcome: 'success' }]);
  });

  t.test(`${provider}: a JSON answer to a request for a stream is read`, async (t) => {
    streamAt(provider).reply(200, good(provider));
    t.strictSame((await opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' }).ask()).json, GOOD);
  });
}
