import type { Page } from 'playwright-core';
import t from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { openBrowser, overflowOf, picture, violationsOn, WIDTHS } from '#scripts/browser/open-browser.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';

const open = await openBrowser(t);
if ('missing' in open) {
  if (process.env.CHROMIUM === 'required') throw new Error(open.missing);
  t.plan(0, open.missing);
  process.exit();
}

const cluster = await startCluster(t, { inside: true, workers: ['gradenotices'], neighbours: false });
const mongo = openMongo({
  url: cluster.env.MONGODB_URL ?? '',
  database: cluster.env.MONGODB_DATABASE ?? '',
  appName: 'console-test',
});
t.teardown(() => mongo.close());
const { url } = cluster.door();
for (let i = 0; i < 12; i += 1)
  await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { runAt: Date.now() - 40_000 });

async function signIn(page: Page): Promise<void> {
  await page.goto(`${url}/ops`);
  await page.fill('input[name=token]', cluster.tokens.ops);
  await page.press('input[name=token]', 'Enter');
  await page.waitForURL('**/ops/overview');
}

t.test('every screen is clean for axe and fits a phone, in both languages', async (t) => {
  for (const locale of ['vi', 'en']) {
    for (const width of WIDTHS) {
      const context = await open({ width, locale });
      const page = await context.newPage();
      const faults: string[] = [];
      page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
      page.on('pageerror', (error) => faults.push(error.message));
      await page.goto(`${url}/ops/sign-in`);
      const inspect = async (name: string) => {
        t.strictSame(await violationsOn(page), [], `${name} ${locale} ${width}`);
        t.equal(await overflowOf(page), 0, `${name} ${locale} ${width} is no wider than its window`);
        await picture(page, `${name}-${locale}-${width}`);
      };
      await inspect('sign-in');
      await signIn(page);
      const paths = await page
        .locator('nav a')
        .evaluateAll((links) => links.map((link) => link.getAttribute('href') ?? ''));
      for (const path of paths) {
        await page.goto(url + path);
        await inspect(path.slice('/ops/'.length));
      }
      t.strictSame(faults, [], 'the browser reports no fault, such as a forbidden script or style');
      await context.close();
    }
  }
});
