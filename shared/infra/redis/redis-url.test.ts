import t from 'tap';
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
