import t from 'tap';
import { ReplyTimeout, withReplyTimeout } from './link.ts';

t.test('within returns a result or rejection that comes in time', async (t) => {
  t.equal(await withReplyTimeout(60_000, Promise.resolve('here')), 'here');
  await t.rejects(withReplyTimeout(60_000, Promise.reject(new Error('refused'))), { message: 'refused' });
});

t.test('within rejects at the time limit and ignores a late rejection', async (t) => {
  const late = Promise.withResolvers<never>();
  await t.rejects(withReplyTimeout(1, late.promise), ReplyTimeout);
  late.reject(new Error('late'));
});

t.test('within accepts a reply that was ready while this process itself was too busy to read it', async (t) => {
  const answer = withReplyTimeout(1, new Promise((resolve) => setImmediate(resolve, 'ready')));
  const from = performance.now();
  while (performance.now() - from < 20);
  t.equal(await answer, 'ready');
});
