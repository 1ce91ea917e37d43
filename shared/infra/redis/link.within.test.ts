import t from 'tap';
import { OutOfTime, within } from './link.ts';

t.test('gives the result or the rejection that comes in time', async (t) => {
  t.equal(await within(60_000, Promise.resolve('here')), 'here');
  await t.rejects(within(60_000, Promise.reject(new Error('refused'))), { message: 'refused' });
});

t.test('rejects when the time is up, and a late rejection disturbs nobody', async (t) => {
  const late = Promise.withResolvers<never>();
  await t.rejects(within(1, late.promise), OutOfTime);
  late.reject(new Error('late'));
});

t.test('an answer that lies ready when this process was itself too busy still counts', async (t) => {
  const answer = within(1, new Promise((resolve) => setImmediate(resolve, 'ready')));
  const from = performance.now();
  while (performance.now() - from < 20);
  t.equal(await answer, 'ready');
});
