import t from 'tap';
import { ReplyTimeout, withReplyTimeout } from './link.ts';
import { readRedisUrl } from './redis-url.ts';

t.test('reads every part of a Redis URL', async (t) => {
  t.strictSame(readRedisUrl('redis://127.0.0.1:7000'), {
    host: '127.0.0.1',
    port: 7000,
    db: 0,
    tls: false,
    label: '127.0.0.1:7000',
  });
  t.strictSame(readRedisUrl('rediss://app:p%40ss%2Fword@[::1]/3?family=6'), {
    host: '::1',
    port: 6379,
    family: 6,
    username: 'app',
    password: 'p@ss/word',
    db: 3,
    tls: true,
    label: '::1:6379',
  });
  t.strictSame(readRedisUrl('redis://:secret@cache.internal?db=2'), {
    host: 'cache.internal',
    port: 6379,
    password: 'secret',
    db: 2,
    tls: false,
    label: 'cache.internal:6379',
  });
  t.match(readRedisUrl('unix:///run/redis.sock?db=1'), { path: '/run/redis.sock', db: 1, label: '/run/redis.sock' });
});

t.test('rejects a text that is not a Redis URL, without quoting it', async (t) => {
  for (const url of [
    '',
    'localhost:6379',
    'http://:hunter2@host',
    'redis://:hunter2@host/one',
    'redis://:hunter2@host:99999',
  ]) {
    try {
      readRedisUrl(url);
      t.fail(url);
    } catch (error) {
      t.ok(error instanceof Error && !error.message.includes('hunter2'), url);
    }
  }
});

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
