import t, { type Test } from 'tap';
import { openTestDoor } from '#testing/doors/test-door.ts';
import { type ReferenceDeps, referenceRoutes } from './mount.ts';

const FILES = {
  'package.json': '{}',
  'swagger-ui.css': 'body {}',
  'swagger-ui-bundle.js': 'globalThis.SwaggerUIBundle = () => {};',
  'swagger-ui-bundle.js.map': '{}',
};

async function open(t: Test, change: Partial<ReferenceDeps> = {}) {
  const warnings: string[] = [];
  const routes = referenceRoutes({
    enabled: true,
    log: { warn: (_fields: object, message: string) => void warnings.push(message) },
    findPackage: () => t.testdir(FILES),
    ...change,
  });
  const { port } = await openTestDoor(t, { routes, schemas: 'product' });
  return { warnings, get: (path: string, headers: Record<string, string> = {}) => get(port, path, headers) };
}

async function get(port: number, path: string, headers: Record<string, string> = {}) {
  const reply = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
  return { status: reply.status, headers: Object.fromEntries(reply.headers), text: await reply.text() };
}

t.test('the page loads the files of this process only, under a strict policy', async (t) => {
  const { get } = await open(t);
  const page = await get('/docs');
  t.match(page, {
    status: 200,
    headers: { 'content-type': 'text/html; charset=utf-8', 'x-content-type-options': 'nosniff' },
  });
  const policy = String(page.headers['content-security-policy']);
  t.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
  t.notMatch(policy, /unsafe|https?:|\*/);
  t.notMatch(page.text, /<script(?![^>]* src="\/docs\/assets\/)|<style|style=|https?:/);
  for (const [, address = ''] of page.text.matchAll(/(?:src|href)="(\/docs\/[^"]*)"/g)) {
    t.match(await get(address), { status: 200, headers: { 'x-content-type-options': 'nosniff' } }, address);
  }
});

t.test('a file is sent once, and after that only if it has changed', async (t) => {
  const { get } = await open(t);
  const first = await get('/docs/assets/swagger-ui.css');
  t.match(first, { status: 200, text: FILES['swagger-ui.css'], headers: { 'cache-control': 'no-cache' } });
  t.match(await get('/docs/assets/swagger-ui.css', { 'if-none-match': first.headers.etag ?? '' }), {
    status: 304,
    text: '',
  });
  t.match(await get('/docs/assets/swagger-ui.css', { 'if-none-match': '"other"' }), { status: 200 });
});

t.test('no other file of the package is served', async (t) => {
  const { get } = await open(t);
  for (const name of ['package.json', 'swagger-ui-bundle.js.map', '..%2fpackage.json', 'index.html']) {
    t.match(await get(`/docs/assets/${name}`), { status: 404, text: 'ROUTE_NOT_FOUND' }, name);
  }
});

t.test('a reference that is off is an unknown address', async (t) => {
  const { get, warnings } = await open(t, { enabled: false });
  const { requestId: _id, ...body } = JSON.parse((await get('/docs')).text);
  const { requestId: _other, ...unknown } = JSON.parse((await get('/unknown')).text);
  t.strictSame(body, unknown);
  t.strictSame(warnings, []);
});

t.test('a reference without its package is an unknown address and warns', async (t) => {
  const { get, warnings } = await open(t, { findPackage: () => null });
  t.match(await get('/docs'), { status: 404, text: 'ROUTE_NOT_FOUND' });
  t.strictSame(warnings, ['reference has not found its package; /docs is not served']);
});

t.test('the package of this checkout has the files', async (t) => {
  const routes = referenceRoutes({
    enabled: true,
    log: { warn: (_fields: object, message: string) => t.fail(message) },
  });
  const { port } = await openTestDoor(t, { routes, schemas: 'product' });
  const script = await get(port, '/docs/assets/swagger-ui-bundle.js');
  t.match(script, { status: 200, text: /SwaggerUIBundle/ });
});
