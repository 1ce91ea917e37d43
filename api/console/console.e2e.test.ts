import type { Page } from 'playwright-core';
import t from 'tap';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { CLUSTER_SAMPLES, type ClusterSample } from '#infra/mongo/operations/samples.ts';
import { writeAudit } from '#infra/mongo/operator-audit.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { openRows, overflowOf, picture, requireBrowser, signIn, violationsOn } from '#testing/browser/open-browser.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { graded, postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';

const open = await requireBrowser(t);
const cluster = await startCluster(t, { inside: true, workers: ['gradenotices'], neighbours: false });
const mongo = openRows(t, cluster);
const { url } = cluster.door();
for (let i = 0; i < 12; i += 1)
  await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { runAt: Date.now() - 40_000 });

const board = await storeAttempt(mongo, {
  examId: 'exam-of-friday',
  deadlineAt: new Date(Date.now() - 60_000),
  studentInfo: JSON.stringify({ fullName: 'Nguyễn Trần Hoàng Phương Quỳnh Anh '.repeat(3), className: 'x'.repeat(60) }),
  away: { count: 3, seconds: 700, since: new Date() },
  networkRetries: 3,
  extraMinutes: 15,
});

// The live worker of notices has no notification service.
const noticed = gradeNotices(await storeAttempt(mongo, graded()));
await inTransaction(mongo, 60_000, (session) =>
  queueNotices(mongo, session, noticed, { maxAttempts: 10, now: Date.now() }),
);

await plantHour();
for (const [operator, subject] of [
  ['OPS_TOKEN', 'account-7'],
  ['ADMIN 01989f3c-1d2e-7000-8000-0123456789ab', '<script>alert(1)</script>'],
] as const) {
  const line = { action: 'account.unlock', subject, detail: { attempts: 5, address: null } } as const;
  await writeAudit(mongo, { operator, reason: 'the owner called, "<b>locked out</b>"', now: Date.now() }, line);
}

/** Stores the samples of an hour in which grading stopped, with a gap. */
async function plantHour(): Promise<void> {
  const now = Date.now();
  const rows = Array.from({ length: 58 }, (_, n): ClusterSample => {
    const at = new Date(now - (n + 1) * 60_000);
    const due = Math.max(0, 12 - n);
    const ended = { failed: 0, died: 0 };
    const queues = [
      { queue: 'grading', due, settled: n < 12 ? 0 : 30 + ((n * 7) % 11), ...ended, oldestDueMs: due * 55_000 },
      { queue: 'gradenotices:student', due: n % 4, settled: 25 + ((n * 5) % 9), ...ended, oldestDueMs: (n % 4) * 400 },
    ];
    return { _id: at.toISOString().slice(0, 16), at, queues };
  });
  await mongo.db.collection<ClusterSample>(CLUSTER_SAMPLES).insertMany(rows.filter((_, n) => n < 30 || n > 35));
}

/** Screens that show rows only after a search. */
const FULL = [
  ['trace-of-student', `/ops/trace?q=student:${board.studentId}`],
  ['exams-of-exam', `/ops/exams?exam=${board.examId}`],
  ['board-of-exam', `/ops/exams/board?exam=${board.examId}`],
] as const;

/** Returns by how many pixels the table of a page is wider than its place. */
const scrollsBy = (page: Page) =>
  page.locator('.scroll').evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);

/** Returns the paths of the navigation. */
async function screensOf(page: Page): Promise<string[]> {
  const links = page.locator('nav a');
  const paths = await links.evaluateAll((all) => all.map((link) => link.getAttribute('href') ?? ''));
  t.strictSame(
    paths,
    ['overview', 'queues', 'trace', 'exams', 'dead-letters', 'audit'].map((name) => `/ops/${name}`),
  );
  return paths;
}

/** Each language and each width, light and dark. axe takes most of the time, so it sees each of these values once. */
const WINDOWS = [
  { locale: 'vi', width: 360, dark: true, isSearched: true },
  { locale: 'en', width: 1_280, dark: false, isSearched: true },
  { locale: 'vi', width: 1_280, dark: false, isSearched: false },
  { locale: 'en', width: 360, dark: true, isSearched: false },
] as const;

t.test('every screen is clean for axe, light and dark, and fits a phone, in both languages', async (t) => {
  for (const { isSearched, ...size } of WINDOWS) {
    const context = await open(size);
    const page = await context.newPage();
    const faults: string[] = [];
    page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
    page.on('pageerror', (error) => faults.push(error.message));
    await page.goto(`${url}/ops/sign-in`);
    const inspect = async (name: string) => {
      const window = `${name}-${size.locale}-${size.width}`;
      if (isSearched) t.strictSame(await violationsOn(page), [], window);
      t.equal(await overflowOf(page), 0, `${window} is no wider than its window`);
      await picture(page, window);
    };
    await inspect('sign-in');
    await signIn(page, cluster);
    for (const path of await screensOf(page)) {
      await page.goto(url + path);
      if (path === '/ops/overview')
        t.match(
          await page.locator('p.warning').first().textContent(),
          /gradenotices:\S+ 1 .*set NOTIFICATION_SERVICE_URL/,
        );
      await inspect(path.slice('/ops/'.length));
    }
    for (const [name, path] of FULL) {
      t.equal((await page.goto(url + path))?.status(), 200, name);
      await inspect(name);
      if (name === 'board-of-exam') t.equal(await scrollsBy(page), 0, `no value is cut at ${size.width}`);
    }
    t.strictSame(faults, [], 'the browser reports no fault, such as a forbidden script or style');
    await context.close();
  }
});

t.test('every screen is reached and used by keyboard', async (t) => {
  const context = await open({ width: 1_280, locale: 'en' });
  const page = await context.newPage();
  await signIn(page, cluster);
  for (const path of await screensOf(page)) {
    await page.goto(`${url}/ops/overview`);
    await page.keyboard.press('Tab');
    t.equal(
      await page.evaluate('document.activeElement.getAttribute("href")'),
      '#main',
      'the first link leads to the content',
    );
    const reached: unknown[] = [];
    while (reached.at(-1) !== path && reached.length < 20) {
      await page.keyboard.press('Tab');
      reached.push(await page.evaluate('document.activeElement.getAttribute("href")'));
    }
    await page.keyboard.press('Enter');
    await page.waitForURL(`**${path}`);
    t.equal(await page.locator('nav a[aria-current=page]').getAttribute('href'), path);
  }
  await context.close();
});

t.test('a page reads its state again without losing focus', async (t) => {
  const context = await open({ width: 1_280, locale: 'en' });
  const page = await context.newPage();
  await signIn(page, cluster);
  await page.goto(`${url}/ops/queues`);
  const due = page.locator('tr', { hasText: 'essayhandoff' }).locator('td').nth(1);
  t.equal(await due.textContent(), '0');
  await page.locator('.scroll').first().focus();
  await postCommand(mongo, {
    ...newCommand({
      queue: 'essayhandoff',
      key: 'k',
      subject: 's',
      body: {} as never,
      maxAttempts: 1,
      now: Date.now() - 1_000,
    }),
  });
  await page.getByText('scale essayhandoff').waitFor();
  t.equal(await page.evaluate('document.activeElement.className'), 'scroll', 'the table still has the focus');
  t.equal(await due.textContent(), '1');
  await context.close();
});

t.test('a page that cannot be read again states since when, until it can', async (t) => {
  const context = await open({ width: 1_280, locale: 'en' });
  const page = await context.newPage();
  await signIn(page, cluster);
  await page.goto(`${url}/ops/queues`);
  await page.route('**/ops/queues', (route) => route.abort());
  const warning = page.locator('#main .stale');
  await warning.waitFor();
  t.match(await warning.textContent(), /could not be read again since .*\d/);
  t.strictSame(await violationsOn(page), []);
  await picture(page, 'stale');
  await page.unroute('**/ops/queues');
  await warning.waitFor({ state: 'detached' });
  // A proxy answers instead of the console.
  await page.route('**/ops/queues', (route) => route.fulfill({ status: 502, body: '<h1>Bad Gateway</h1>' }));
  await warning.waitFor();
  t.equal(await page.getByText('Bad Gateway').count(), 0);
  await context.close();
});

t.test('signing out by the button ends the session', async (t) => {
  const context = await open({ width: 360, locale: 'en' });
  const page = await context.newPage();
  await signIn(page, cluster);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL('**/ops/sign-in');
  await page.goto(`${url}/ops/audit`);
  t.match(page.url(), '/ops/sign-in?next=%2Fops%2Faudit');
  await context.close();
});
