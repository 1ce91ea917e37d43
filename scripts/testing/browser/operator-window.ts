import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { optionalTool } from '#testing/optional-tool.ts';
import type { Cluster } from '#testing/processes/cluster.ts';
import { type OpenWindow, openBrowser } from './open-browser.ts';

/** Opens headless Chromium. Without one it skips the test file, unless `CHROMIUM=required`. */
export async function requireBrowser(t: Pick<Test, 'teardown' | 'plan'>): Promise<OpenWindow> {
  const browser = await optionalTool('CHROMIUM', () => openBrowser(t));
  if ('tool' in browser) return browser.tool;
  t.plan(0, browser.missing);
  process.exit();
}

/** Opens the database of a cluster, for the rows that its console shows. The end of the test closes it. */
export function openRows(t: Pick<Test, 'teardown'>, { env }: Pick<Cluster, 'env'>) {
  const { MONGODB_URL: url = '', MONGODB_DATABASE: database = '' } = env;
  const mongo = openMongo({ url, database, appName: 'console-test' });
  t.teardown(() => mongo.close());
  return mongo;
}

/** Signs in to the console by OPS_TOKEN and waits for its first screen. */
export async function signIn(page: Page, { door, tokens }: Pick<Cluster, 'door' | 'tokens'>): Promise<void> {
  await page.goto(`${door().url}/ops`);
  await page.fill('input[name=token]', tokens.ops);
  await page.press('input[name=token]', 'Enter');
  await page.waitForURL('**/ops/overview');
}
