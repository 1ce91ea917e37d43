import { globSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { AxeResults } from 'axe-core';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import type { Test } from 'tap';
import { onPath } from '#scripts/start/services/tools.ts';
import { unpackedPackage } from '#testing/optional-tool.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
const AXE = readFileSync(path.join(ROOT, 'node_modules/axe-core/axe.min.js'), 'utf8');
/** Folder of the pictures, for the eyes of the person who changes a page. */
const PICTURES = path.join(ROOT, '.cache/console-pictures');

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Widths of a small phone and of a desk. */
export const WIDTHS = [360, 1_280] as const;
/** Longest wait for an element on a busy machine (ms). */
const PATIENT_MS = 60_000;

/** Opens contexts of one headless Chromium: windows of different persons. */
export type OpenWindow = (options: { width: number; locale: string; dark?: boolean }) => Promise<BrowserContext>;

/** Opens headless Chromium. The end of the test closes it. @throws Error with the reason if the machine has none */
export async function openBrowser(t: Pick<Test, 'teardown'>): Promise<OpenWindow> {
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

/** Returns the violations that axe finds on a page, each with its element and its remedy. */
export async function violationsOn(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations } = (await page.evaluate('axe.run()')) as AxeResults;
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary}`),
  );
}

/** Stores a picture of the whole page. */
export async function picture(page: Page, name: string): Promise<void> {
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: path.join(PICTURES, `${name}.png`), fullPage: true });
}

/** Returns by how many pixels the page is wider than its window. */
export async function overflowOf(page: Page): Promise<number> {
  return Number(await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth'));
}
