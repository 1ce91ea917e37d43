import t from 'tap';
import { unreadableIn } from './connect.ts';

t.test('accepts connection strings that the driver accepts', async (t) => {
  for (const url of [
    'mongodb://a,b:27018/school?replicaSet=rs0',
    'mongodb://root:p%40ss%2Fword@db/?w=majority',
    'mongodb+srv://u:p@cluster.example/examhall',
  ]) {
    t.equal(unreadableIn(url), undefined, url);
  }
});

t.test('reports why a connection string is invalid', async (t) => {
  t.equal(unreadableIn('mongodb://db/?retryWrite=true'), 'option retrywrite is not supported');
  t.match(unreadableIn('mongodb://root:hunter2@db:99999/'), /db:99999/);
  t.match(unreadableIn('mongodb+srv://db:27017/'), /port/);
  t.match(unreadableIn('mongodb://db/ex.am'), /Database names/);
});

t.test('reports an unescaped password in a connection string without quoting any part of it', async (t) => {
  for (const password of [
    'hunt@er2',
    'hunt/er2',
    'hunt?er2',
    'hunt#er2',
    'hunt:er2',
    'hunt%er2',
    '12/hunter2',
    'a@b?hunter2',
  ]) {
    const told = unreadableIn(`mongodb://root:${password}@db/school`);
    t.match(told, /percent-encoded/, password);
    t.notMatch(told, /hunt|er2/, password);
  }
  const told = unreadableIn('mongodb://db/?tlsCertificateKeyFilePassword=hunter2&hunter3=1');
  t.match(told, /cannot be read/);
  t.notMatch(told, /hunter/);
});
