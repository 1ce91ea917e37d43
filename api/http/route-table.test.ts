import t from 'tap';
import { splitTarget } from './exchange.ts';
import { compileTable } from './route-table.ts';

const row = (method: string, path: string) => ({ method, path, value: `${method} ${path}` });

t.test('a static segment wins over a parameter unless it leads to no route', async (t) => {
  const table = compileTable([
    row('GET', '/v1/a/:id'),
    row('GET', '/v1/a/me'),
    row('GET', '/v1/:kind/me/x'),
    row('POST', '/v1/a/:id'),
    row('GET', '/'),
  ]);
  t.match(table('GET', '/v1/a/me'), { kind: 'found', value: 'GET /v1/a/me', params: {} });
  t.match(table('GET', '/v1/a/you'), { kind: 'found', value: 'GET /v1/a/:id', params: { id: 'you' } });
  t.match(table('GET', '/v1/a/me/x'), { kind: 'found', value: 'GET /v1/:kind/me/x', params: { kind: 'a' } });
  t.match(table('GET', '/'), { kind: 'found', value: 'GET /' });
  t.strictSame(table('PUT', '/v1/a/you'), { kind: 'wrong-method', allow: 'GET, POST' });
  t.strictSame(table('PUT', '/v1/a/y u'), { kind: 'no-route' });
  t.strictSame(table('GET', '/v1/b'), { kind: 'no-route' });
});

t.test('two methods of one path may name its parameter differently', async (t) => {
  const table = compileTable([row('GET', '/v1/:examId'), row('POST', '/v1/:id')]);
  t.match(table('GET', '/v1/x'), { params: { examId: 'x' } });
  t.match(table('POST', '/v1/x'), { params: { id: 'x' } });
});

t.test('compiling two routes of one method and path throws', async (t) => {
  t.throws(() => compileTable([row('GET', '/v1/:a'), row('GET', '/v1/:b')]), /Two routes answer GET \/v1\/:b/);
});

t.test('splitTarget splits path and query and drops the authority', async (t) => {
  t.strictSame(splitTarget('/a?b?c'), { path: '/a', query: 'b?c' });
  t.strictSame(splitTarget('/a'), { path: '/a', query: '' });
  t.strictSame(splitTarget('HTTP://host:1/a?b'), { path: '/a', query: 'b' });
  t.strictSame(splitTarget('http://host?b'), { path: '/', query: 'b' });
  t.strictSame(splitTarget('*'), { path: '*', query: '' });
});
