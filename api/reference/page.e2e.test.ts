import t from 'tap';
import { openApi } from '#api/openapi.ts';
import { readExamples } from '#api/openapi-examples.ts';
import { operationsRoutes } from '#api/operations/routes.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import { allRoutes } from '#scripts/generate/all-routes.ts';
import { requireBrowser } from '#testing/browser/open-browser.ts';
import { openTestDoor } from '#testing/doors/test-door.ts';
import { referenceRoutes } from './mount.ts';

const open = await requireBrowser(t);

t.test('the page shows every operation and calls no other host', async (t) => {
  const routes = allRoutes();
  const document = openApi({
    routes,
    schemas: loadSchemas(),
    version: '1',
    title: 'examhall',
    examples: readExamples(),
  });
  const served = operationsRoutes({ services: [], openApi: () => document } as unknown as Parameters<
    typeof operationsRoutes
  >[0]);
  const { port } = await openTestDoor(t, {
    routes: [...served, ...referenceRoutes({ enabled: true, log: { warn: () => t.fail('the package is missing') } })],
    schemas: 'product',
  });
  const window = await open({ width: 1_280, locale: 'en' });
  const page = await window.newPage();
  const faults: string[] = [];
  const hosts = new Set<string>();
  page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('request', (request) => request.url().startsWith('data:') || hosts.add(new URL(request.url()).host));

  await page.goto(`http://127.0.0.1:${port}/docs`);
  await page.waitForSelector('.opblock');
  t.equal(await page.locator('.opblock').count(), routes.length);
  await page.click('[id$="-submitAttempt"] .opblock-summary-control');
  await page.waitForSelector('.opblock.is-open .responses-table');
  t.match(await page.locator('.opblock.is-open').textContent(), 'waits up to ATTEMPT_GRADING_WAIT_MS');
  t.strictSame(faults, []);
  t.strictSame([...hosts], [`127.0.0.1:${port}`]);
});
