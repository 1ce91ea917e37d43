import t, { type Test } from 'tap';
import { openTestDoor } from '#testing/doors/test-door.ts';
import { landingRoute } from './landing.ts';

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

async function open(t: Test, { production = false, paths = ['/readyz', '/openapi.json'], console = false } = {}) {
  const mounted = () => paths.map((path) => ({ method: 'GET' as const, path }));
  const pages = () => (console ? [{ method: 'GET' as const, path: '/ops' }] : []);
  const { port } = await openTestDoor(t, {
    routes: [landingRoute({ version: '1.2.3', production, mounted, pages })],
    schemas: 'product',
  });
  return (accept: string, method = 'GET') => fetch(`http://127.0.0.1:${port}/`, { method, headers: { accept } });
}

t.test('a browser gets a page, and any other client JSON with the same links', async (t) => {
  const get = await open(t);
  const page = await get(BROWSER);
  t.match(page.headers.get('content-type'), 'text/html; charset=utf-8');
  t.match(page.headers.get('content-security-policy'), /default-src 'none'/);
  t.equal(page.headers.get('vary'), 'Accept');
  t.equal(page.headers.get('x-content-type-options'), 'nosniff');
  const text = await page.text();
  const hrefs = [...text.matchAll(/href="([^"]*)"/g)].map(([, href]) => href);
  t.strictSame(hrefs, ['/openapi.json', '/readyz']);
  t.match(text, /<h1>examhall 1\.2\.3<\/h1>/);
  t.notMatch(text, /<script|<style|style=/);
  for (const accept of ['*/*', 'application/json', '']) {
    const reply = await get(accept);
    t.equal(reply.headers.get('vary'), 'Accept');
    const { data } = (await reply.json()) as { data: { links: { path: string }[]; commands: object[] } };
    t.strictSame(
      data.links.map(({ path }) => path),
      hrefs,
      accept,
    );
    t.match(data.commands, [{ command: 'npm run demo' }]);
  }
});

t.test('the root names the console and the reference only if the process serves them', async (t) => {
  const get = await open(t, { paths: ['/docs'], console: true });
  t.match(await (await get(BROWSER)).text(), /href="\/ops".*href="\/docs"/s);
  t.notMatch(await (await (await open(t))(BROWSER)).text(), /"\/ops"|"\/docs"/);
});

t.test('in production the root names no command', async (t) => {
  const get = await open(t, { production: true });
  t.notMatch(await (await get(BROWSER)).text(), 'npm run');
  t.match(await (await get('*/*')).json(), { data: { commands: [], service: 'examhall' } });
});

t.test('HEAD on the root is answered as GET is, without the body', async (t) => {
  const get = await open(t);
  for (const accept of [BROWSER, '*/*']) {
    const head = await get(accept, 'HEAD');
    t.equal(head.status, 200);
    t.equal(await head.text(), '');
    t.equal(head.headers.get('content-length'), (await get(accept)).headers.get('content-length'));
  }
});
