import type { Locator, Page } from 'playwright-core';
import t from 'tap';
import { VERSION } from '#infra/config/config.ts';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { writeAudit } from '#infra/mongo/operator-audit.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { ATTEMPT_SERVICE, gradeNotices } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newEvent } from '#shared/notification/event.ts';
import { openRows, picture, requireBrowser, signIn } from '#testing/browser/open-browser.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { graded, postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { workerRow } from '#testing/stored/stored-commands.ts';
import { storeDeadGrading } from '#testing/stored/stored-dead-letters.ts';
import { sampleFanOut } from '#testing/stored/stored-notifications.ts';

const open = await requireBrowser(t);
const cluster = await startCluster(t, { inside: true, apart: ['upkeep'], workers: ['upkeep'], neighbours: false });
const mongo = openRows(t, cluster);
const MOST_CLICKS = 3;

/** Stores a released grade of which the mother of the pupil got no notification, because she has muted them. */
async function storeUntoldMother(): Promise<string> {
  const attempt = await storeAttempt(mongo, graded());
  const options = { maxAttempts: 10, now: Date.now() };
  await inTransaction(mongo, 60_000, (session) => queueNotices(mongo, session, gradeNotices(attempt), options));
  const told = { status: 'DELIVERED', settledAt: new Date(), result: { recipients: 1 } } as const;
  await mongo.db.collection<Command>(NOTICES).updateMany({}, { $set: told });
  const sourceEventId = `${attempt._id}:notification:grade_released_parent`;
  const fanOut = sampleFanOut({ rows: 0 });
  const suppressed = [{ userId: 'mother-1', reason: 'MUTED' as const }];
  const stored = { id: fanOut.fanOutId, now: new Date(), created: 0, organizationId: null, suppressed };
  const event = newEvent({ sourceService: ATTEMPT_SERVICE, sourceEventId, targetUserIds: ['mother-1'] }, stored);
  await insertFanOut(mongo, { ...fanOut, event });
  return attempt.studentId;
}

for (let n = 0; n < 12; n++)
  await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { runAt: Date.now() - 40_000 });
for (let n = 0; n < 3; n++) await storeDeadGrading(mongo, 'the disk is full');
await storeDeadGrading(mongo, 'the paper has no key');
const studentId = await storeUntoldMother();
// Submitted late: the worker of the sweeps would submit an open attempt at its deadline.
const late = await storeAttempt(mongo, {
  ...SUBMITTED,
  examId: 'exam-of-friday',
  deadlineAt: new Date(SUBMITTED.submittedAt.getTime() - 90_000),
});
await storeAttempt(mongo, { examId: 'exam-of-friday', deadlineAt: new Date(Date.now() + 900_000) });
for (const [operator, action, subject, reason] of [
  ['ADMIN an', 'account.show', 'account-4', 'ticket 4709'],
  ['ADMIN binh', 'account.end-sessions', 'account-4', 'a lost telephone'],
] as const)
  await writeAudit(mongo, { operator, reason, now: Date.now() }, { action, subject, detail: {} });
const unlocked = { action: 'account.unlock', subject: 'account-7', detail: { attempts: 5, address: null } } as const;
const act = { operator: 'ADMIN an', reason: 'the owner called: she is locked out', now: Date.now() };
await writeAudit(mongo, act, unlocked);

/** Stores workers of other machines, which the picture of the screen shows. */
async function storeWorkers(): Promise<void> {
  const now = new Date();
  const rows = [
    ['delivery', ['delivery:log', 'delivery:webhook'], 8],
    ['gradenotices', ['gradenotices:student', 'gradenotices:parent'], 16],
  ] as const;
  await mongo.db.collection<WorkerRow>(WORKERS).insertMany(
    rows.map(([actor, queues, slots], n) =>
      workerRow(actor, {
        _id: `${actor}-of-picture`,
        queues: [...queues],
        host: `worker-${n + 2}`,
        pid: 17 + n,
        version: VERSION,
        startedAt: new Date(now.getTime() - 3_600_000),
        slots,
        rssBytes: 118e6 + n * 9e6,
      }),
    ),
  );
}

await storeWorkers();

const context = await open({ width: 1_280, locale: 'en' });
const page = await context.newPage();
await signIn(page, cluster);

/** Does a task that begins at the overview, counts its clicks and stores a picture of its end. */
async function task(name: string, work: (page: Page, click: (target: Locator) => Promise<void>) => Promise<void>) {
  await t.test(name, async (t) => {
    let clicks = 0;
    await page.goto(`${cluster.door().url}/ops/overview`);
    await work(page, async (target) => {
      clicks += 1;
      await target.click();
    });
    t.ok(clicks <= MOST_CLICKS, `${clicks} clicks`);
    await picture(page, `task ${name}`.replaceAll(/[^a-z]+/g, '-'));
  });
}

await page.goto(`${cluster.door().url}/ops/queues`);
await picture(page, 'task-queues');

const screen = (name: string) => page.locator('nav').getByRole('link', { name });
const main = page.locator('#main');

await task('which queue needs a worker', async (page) => {
  const bar = page.locator('p.alarm', { hasText: 'workers: scale' }).first();
  t.equal((await bar.textContent())?.trim(), 'grading: 12 due, 0 workers: scale grading');
});

await task('why was the mother of a pupil not told', async (page, click) => {
  await click(screen('Trace'));
  await page.fill('input[name=q]', `student:${studentId}`);
  await click(main.getByRole('button').first());
  await main.getByText('the user has muted notifications').first().waitFor();
  t.match(await main.textContent(), /Never happens · Muted by the user/);
});

await task('which attempts of an exam are late', async (page, click) => {
  await click(screen('Exams'));
  await page.fill('input[name=exam]', 'exam-of-friday');
  await click(main.getByRole('button', { name: 'Show' }));
  const rows = main.locator('tr', { hasText: 'late by' });
  await rows.first().waitFor();
  t.equal(await rows.count(), 1);
  t.match(await rows.innerHTML(), late._id);
});

await task('who unlocked an account and why', async (page, click) => {
  await click(screen('Audit'));
  await main.getByText('a lost telephone').waitFor();
  await picture(page, 'task-audit');
  await page.fill('input[name=subject]', 'account-7');
  await click(main.getByRole('button', { name: 'Filter' }));
  const row = main.locator('tbody tr');
  await page.waitForURL('**subject=account-7**');
  t.equal(await row.count(), 1);
  t.match(await row.textContent(), /ADMIN an.*account\.unlock.*the owner called: she is locked out/s);
});

await task('replay the dead letters of one cause', async (page, click) => {
  await click(page.locator('p.alarm').getByRole('link', { name: '4 dead letters' }));
  await main.locator('tr', { hasText: 'the disk is full' }).waitFor();
  await picture(page, 'task-dead-letters');
  await click(main.locator('tr', { hasText: 'the disk is full' }).getByRole('link', { name: 'Replay' }));
  t.match(await main.locator('strong').first().textContent(), /^3 would be replayed/);
  await page.fill('input[name=reason]', 'the disk was cleared');
  await click(main.getByRole('button', { name: 'Replay: 3' }));
  await page.waitForURL('**/dead-letters/jobs/*');
  await page.locator('form[action$="/stop"]').waitFor({ state: 'detached' });
  t.match(await main.textContent(), /Done\s*3 of 3/);
});

await context.close();
