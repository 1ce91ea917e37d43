import fc from 'fast-check';
import t from 'tap';
import type { Route } from '#api/route.ts';
import { ask, echoRoute, openTestDoor, openWire, requestText } from '#testing/doors/test-door.ts';
import { splitTarget } from './exchange.ts';

type Row = Pick<Route, 'method' | 'path' | 'pageBelow'>;
const NO_ROUTE = { status: 404, allow: undefined };
type Found = { found: string; params: Readonly<Record<string, string>> };

/** Returns a route that answers with its own method and path, and the parameters that it got. */
function naming(row: Row): Route {
  const found = `${row.method} ${row.path}`;
  return echoRoute({ ...row, handle: async ({ params }) => ({ status: 200, data: { found, params } }) });
}

/** Opens a door with these routes. Returns a function that sends a request, without a body, and returns how it was routed. */
async function openRoutes(...rows: Row[]) {
  const { port } = await openTestDoor(t, { routes: rows.map(naming) });
  return async (method: string, target: string, accept = '*/*') => {
    const { status, headers, json } = await ask(t, port, method, target, [`Accept: ${accept}`]);
    return outcome(status, json.data, headers.allow);
  };
}

const outcome = (status: number, data: Found, allow: string | undefined) =>
  status === 200 && allow === undefined ? data : { status, allow };

t.test('a static segment wins over a parameter unless it leads to no route', async (t) => {
  const route = await openRoutes(
    { method: 'GET', path: '/v1/a/:id' },
    { method: 'GET', path: '/v1/a/me' },
    { method: 'GET', path: '/v1/:kind/me/x' },
    { method: 'POST', path: '/v1/a/:id' },
    { method: 'GET', path: '/' },
  );
  t.strictSame(await route('GET', '/v1/a/me'), { found: 'GET /v1/a/me', params: {} });
  t.strictSame(await route('GET', '/v1/a/you'), { found: 'GET /v1/a/:id', params: { id: 'you' } });
  t.strictSame(await route('GET', '/v1/a/me/x'), { found: 'GET /v1/:kind/me/x', params: { kind: 'a' } });
  t.strictSame(await route('GET', '/'), { found: 'GET /', params: {} });
  t.strictSame(await route('PUT', '/v1/a/you'), { status: 405, allow: 'GET, POST' });
  t.strictSame(await route('PUT', '/v1/a/y%20u'), NO_ROUTE);
  t.strictSame(await route('GET', '/v1/b'), NO_ROUTE);
});

t.test('a static segment wins over the parameter of another method', async (t) => {
  const route = await openRoutes({ method: 'GET', path: '/v1/a/me' }, { method: 'DELETE', path: '/v1/a/:id' });
  for (const method of ['DELETE', 'PUT', 'OPTIONS', 'TRACE']) {
    t.strictSame(await route(method, '/v1/a/me'), { status: 405, allow: 'GET' }, method);
  }
  t.strictSame(await route('DELETE', '/v1/a/you'), { found: 'DELETE /v1/a/:id', params: { id: 'you' } });
});

t.test('two methods of one path may name its parameter differently', async (t) => {
  const route = await openRoutes({ method: 'GET', path: '/v1/:examId' }, { method: 'POST', path: '/v1/:id' });
  t.match(await route('GET', '/v1/x'), { params: { examId: 'x' } });
  t.match(await route('POST', '/v1/x'), { params: { id: 'x' } });
});

t.test('a path of one method leads to its own refusal beside a parameter that two others share', async (t) => {
  const rows = [
    { method: 'PATCH', path: '/me/:id' },
    { method: 'GET', path: '/me/a' },
    { method: 'DELETE', path: '/me/me' },
  ] as const;
  const route = await openRoutes(...rows);
  t.strictSame(await route('DELETE', '/me/a'), { status: 405, allow: 'GET' });
  t.strictSame(await route('DELETE', '/me/you'), { status: 405, allow: 'PATCH' });
});

t.test('two routes of one method and path stop the start', async (t) => {
  await t.rejects(openRoutes({ method: 'GET', path: '/v1/:a' }, { method: 'GET', path: '/v1/:b' }), /'GET'.*'\/v1\/:'/);
});

t.test('a browser gets the page of an address without a route', async (t) => {
  const route = await openRoutes(
    { method: 'GET', path: '/ops/:a', pageBelow: '/ops/' },
    { method: 'POST', path: '/ops/sign-out' },
    { method: 'POST', path: '/ops/:a/:b' },
  );
  const page = { found: 'GET /ops/:a', params: {} };
  for (const target of ['/ops/sign-out', '/ops/a/b', '/ops/a/b/c', '/ops/a%20b', '/ops/a//b']) {
    t.strictSame(await route('GET', target, 'text/html, */*'), page, target);
    t.notSame(await route('GET', target), page, `${target}, not for a browser`);
  }
  t.strictSame(await route('PUT', '/ops/a/b/c', 'text/html'), NO_ROUTE);
  t.strictSame(await route('GET', '/op', 'text/html'), NO_ROUTE);
});

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
const ID = /^[A-Za-z0-9._:-]{1,128}$/;
const isParameter = (segment: string) => segment.startsWith(':');

function decodedId(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return '';
  }
}

/** Returns how a request is to be routed, by the rule: of the paths that fit, the one whose first differing segment is static. */
function expected(rows: readonly Row[], method: string, path: string) {
  const sent = path.split('/').slice(1);
  const fits = ({ path: mounted }: Row) => {
    const parts = mounted.split('/').slice(1);
    const isFit = (part: string, at: number) =>
      part === sent[at] || (isParameter(part) && ID.test(decodedId(sent[at] ?? '')));
    return parts.length === sent.length && parts.every(isFit);
  };
  const shapeOf = ({ path: mounted }: Row) => mounted.replace(/:\w+/g, '\uffff');
  const fitting = rows.filter(fits).sort((a, b) => (shapeOf(a) < shapeOf(b) ? -1 : 1));
  const [best] = fitting;
  if (best === undefined) return NO_ROUTE;
  const same = fitting.filter((one) => shapeOf(one) === shapeOf(best));
  const row = same.find((one) => one.method === method);
  if (row === undefined) {
    const allow = same.map((one) => one.method).sort();
    return { status: 405, allow: allow.join(', ') };
  }
  const named = row.path
    .split('/')
    .slice(1)
    .flatMap((part, at) => (isParameter(part) ? [[part.slice(1), decodedId(sent[at] ?? '')]] : []));
  return { found: `${row.method} ${row.path}`, params: Object.fromEntries(named) };
}

const mountedPath = fc
  .array(fc.constantFrom('a', 'me', 'a-b', ':'), { maxLength: 4 })
  .map((parts) => parts.map((part, at) => (part === ':' ? (at === 0 ? 'a' : `:p${at}`) : part)))
  .map((parts) => `/${parts.join('/')}`);
const tables = fc.uniqueArray(fc.record({ method: fc.constantFrom(...METHODS), path: mountedPath }), {
  minLength: 1,
  maxLength: 12,
  selector: ({ method, path }) => `${method} ${path}`,
});
const sentPath = fc
  .array(
    fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom('a', 'me', 'a-b', 'you') },
      fc.constantFrom('', '.', '..', 'A', 'm', 'mee', '%61', '%2561', '%6De', 'a%2Fme', '%', '%ff', 'a%20', ':p0'),
      fc.constantFrom('a#me', 'a;me', 'a@me', 'x'.repeat(128), 'x'.repeat(129), '%78'.repeat(128), '%78'.repeat(129)),
    ),
    { maxLength: 5 },
  )
  .map((parts) => `/${parts.join('/')}`);
const request = fc.tuple(fc.constantFrom(...METHODS, 'OPTIONS', 'TRACE'), sentPath);

t.test('any table routes any path by its segments as they were sent', async (t) => {
  const property = fc.asyncProperty(tables, fc.array(request, { minLength: 30, maxLength: 30 }), async (rows, sent) => {
    const { port, door } = await openTestDoor(t, { routes: rows.map(naming) });
    const wire = openWire(t, port);
    for (const [method, path] of sent) {
      wire.write(requestText(method, path));
      const { status, headers, json } = await wire.reply();
      t.strictSame(outcome(status, json.data, headers.allow), expected(rows, method, path), `${method} ${path}`);
    }
    wire.socket.destroy();
    await door.close(0);
    return t.passing();
  });
  await fc.assert(property, { numRuns: 60, endOnFailure: true });
});

t.test('splitTarget splits path and query and drops the authority', async (t) => {
  t.strictSame(splitTarget('/a?b?c'), { path: '/a', query: 'b?c' });
  t.strictSame(splitTarget('/a'), { path: '/a', query: '' });
  t.strictSame(splitTarget('HTTP://host:1/a?b'), { path: '/a', query: 'b' });
  t.strictSame(splitTarget('http://host?b'), { path: '/', query: 'b' });
  t.strictSame(splitTarget('*'), { path: '*', query: '' });
});
