import t from 'tap';
import { ask, echoRoute, openTestDoor } from './middleware/test-door.ts';
import { onlyWhenUsable, whenUsable } from './when-usable.ts';

t.test('unready until the schema fits and the clock is measured; each reason is said once', async (t) => {
  const answers = [Promise.reject(new Error('away')), ['old'], ['old'], [], []];
  const said: unknown[] = [];
  const measured = Promise.withResolvers<void>();
  const ready = Promise.withResolvers<void>();
  let failsOnce = true;
  const usable = whenUsable({
    faults: async () => (await answers.shift()) ?? [],
    measure: async () => {
      if (failsOnce) {
        failsOnce = false;
        throw new Error('no clock');
      }
      setImmediate(ready.resolve);
      await measured.promise;
    },
    log: { warn: ({ reason }: { reason?: unknown }) => said.push(reason) } as never,
    stop: new AbortController().signal,
    retryMs: 1,
  });
  const { port } = await openTestDoor(t, { routes: onlyWhenUsable([echoRoute()], usable) });
  t.match(await ask(t, port, 'POST', '/v1/echo/a'), { status: 503, headers: { 'retry-after': '1' } });
  await ready.promise;
  t.notOk(usable());
  measured.resolve();
  await new Promise(setImmediate);
  t.ok(usable());
  t.match(await ask(t, port, 'POST', '/v1/echo/a'), { status: 200 });
  t.strictSame(said, ['away', 'old', 'no clock']);
});
