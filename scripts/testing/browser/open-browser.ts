import { globSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { AxeResults } from 'axe-core';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import type { Test } from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { onPath } from '#scripts/start/services/tools.ts';
import { optionalTool, unpackedPackage } from '#testing/optional-tool.ts';
import type { Cluster } from '#testing/processes/cluster.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
const AXE = readFileSync(path.join(ROOT, 'node_modules/axe-core/axe.min.js'), 'utf8');
const PICTURES = path.join(ROOT, '.cache/console-pictures');

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Widths of a small phone and of a desk. */
export const WIDTHS = [360, 1_280] as const;
const PATIENT_MS = 60_000;

/** Opens contexts of one headless Chromium: windows of different persons. */
type OpenWindow = (options: { width: number; locale: string; dark?: boolean }) => Promise<BrowserContext>;

/** Opens headless Chromium. The end of the test closes it. @throws Error with the reason if the machine has none */
async function openBrowser(t: Pick<Test, 'teardown'>): Promise<OpenWindow> {
  const browser = await chromium.launch(await findChromium());
  t.teardown(() => browser.close());
  return async ({ width, locale, dark = false }) => {
    const viewport = { width, height: 800 };
    const context = await browser.newContext({ viewport, locale, colorScheme: dark ? 'dark' : 'light' });
    context.setDefaultTimeout(PATIENT_MS);
    return context;
  };
}

/** Returns Chromium from PATH, otherwise that of Debian, with an environment that finds its libraries. */
async function findChromium(): Promise<{ executablePath: string; env: Record<string, string> }> {
  const env = Object.fromEntries(Object.entries(process.env).map(([name, value = '']) => [name, value]));
  const found = onPath(NAMES, env.PATH);
  if (found !== undefined) return { executablePath: found, env };
  const debian = await unpackedPackage('chromium', true);
  const libraries = globSync('{usr/,}lib/*-linux-gnu/{,*/}lib*.so*', { cwd: debian });
  const folders = new Set(libraries.map((name) => path.dirname(path.join(debian, name))));
  const searched = [...folders, env.LD_LIBRARY_PATH ?? ''].filter((one) => one !== '').join(':');
  // Debian's wrapper script would read its settings below /etc, so the program is started itself.
  return {
    executablePath: path.join(debian, 'usr/lib/chromium/chromium'),
    env: { ...env, LD_LIBRARY_PATH: searched },
  };
}

export async function violationsOn(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations } = (await page.evaluate('axe.run()')) as AxeResults;
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary}`),
  );
}

export async function picture(page: Page, name: string): Promise<void> {
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: path.join(PICTURES, `${name}.png`), fullPage: true });
}

/** Returns by how many pixels the page is wider than its window. */
export async function overflowOf(page: Page): Promise<number> {
  return Number(await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth'));
}

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

export async function signIn(page: Page, { door, tokens }: Pick<Cluster, 'door' | 'tokens'>): Promise<void> {
  await page.goto(`${door().url}/ops`);
  await page.fill('input[name=token]', tokens.ops);
  await page.press('input[name=token]', 'Enter');
  await page.waitForURL('**/ops/overview');
}
