import t from 'tap';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import {
  openRows,
  overflowOf,
  picture,
  requireBrowser,
  signIn,
  violationsOn,
  WIDTHS,
} from '#testing/browser/open-browser.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { storeDeadGrading } from '#testing/stored/stored-dead-letters.ts';

const open = await requireBrowser(t);
const cluster = await startCluster(t, { inside: true, workers: ['upkeep'], neighbours: false });
const mongo = openRows(t, cluster);
const { url } = cluster.door();
const CAUSE = 'cannot write <script>alert(1)</script> to the disk';

t.test('an operator finds letters by cause, acts on chosen ones, and on all as a bulk act', async (t) => {
  for (const [locale, width] of [
    ['vi', WIDTHS[0]],
    ['en', WIDTHS[1]],
  ] as const) {
    for (let n = 0; n < 4; n++) await storeDeadGrading(mongo, CAUSE);
    const context = await open({ width, locale });
    const page = await context.newPage();
    const faults: string[] = [];
    page.on('pageerror', (error) => faults.push(error.message));
    page.on('dialog', (dialog) => faults.push(dialog.message()));
    await signIn(page, cluster);
    const inspect = async (name: string) => {
      t.strictSame(await violationsOn(page), [], `${name} ${locale} ${width}`);
      t.equal(await overflowOf(page), 0, `${name} ${locale} ${width} is no wider than its window`);
      await picture(page, `dead-${name}-${locale}-${width}`);
    };
    await page.goto(`${url}/ops/dead-letters`);
    await inspect('groups');
    await page.click('#main table a[href*="/letters?"]');
    await inspect('letters');
    await page.click('#main table a[href*="/letters/"]');
    t.match(await page.locator('#main .alarm').textContent(), CAUSE);
    await inspect('letter');

    // One letter: a dry run with its reason, and then the result.
    await page.click('button[value=ack]');
    await inspect('confirm-one');
    await page.fill('input[name=reason]', 'ticket 4711');
    await page.click('form[action$="/act"] button');
    await page.waitForSelector('#main .well');
    await inspect('result');

    // All letters of the cause, as a bulk act.
    await page.goto(`${url}/ops/dead-letters?queue=grading`);
    await page.click('#main table a[href*="/letters?"]');
    await page.selectOption('form.row select[name=act]', 'drop');
    await page.click('form.row:not(:has(input[name=id])) button');
    t.match(await page.locator('#main strong').textContent(), /^4 /);
    await inspect('confirm-all');
    await page.fill('input[name=reason]', 'no longer wanted');
    await page.click('form[action$="/act"] button.danger');
    await page.waitForURL('**/dead-letters/jobs/*');
    await page.waitForSelector('form[action$="/stop"]', { state: 'detached' });
    await inspect('job');
    await page.goto(`${url}/ops/dead-letters`);
    t.equal(await page.locator('#main .well').count(), 1, 'no dead letter is left');
    await inspect('none');
    t.strictSame(faults, []);
    await context.close();
  }
  const rows = await operatorAudit(mongo).find({}).toArray();
  const of = (wanted: string) => rows.filter(({ action }) => action === wanted).length;
  t.strictSame([of('dead.ack'), of('dead.drop'), of('dead.bulk-end')], [2, 8, 2]);
  t.ok(rows.every(({ operator }) => operator === 'OPS_TOKEN'));
});

t.test('an act needs a reason, a choice and a valid filter, and unknown ids have a page', async (t) => {
  const context = await open({ width: WIDTHS[1], locale: 'en' });
  const page = await context.newPage();
  await signIn(page, cluster);
  const status = async (path: string) => (await page.goto(`${url}/ops/dead-letters${path}`))?.status();
  t.equal(await status('/confirm?act=drop'), 400);
  t.equal(await status('/confirm?act=burn&id=x'), 400);
  t.equal(await status('?since=yesterday'), 400);
  t.equal(await status('?queue=nope'), 400);
  t.equal(await status('/letters/unknown'), 404);
  t.equal(await status('/jobs/unknown'), 404);
  const { _id } = await storeDeadGrading(mongo, CAUSE);
  await page.goto(`${url}/ops/dead-letters/confirm?act=drop&id=${_id}`);
  await page.locator('input[name=reason]').evaluate((field) => field.removeAttribute('required'));
  await page.locator('input[name=reason]').evaluate((field) => field.removeAttribute('minlength'));
  await page.fill('input[name=reason]', 'no');
  await page.click('form[action$="/act"] button');
  await page.waitForSelector('[role=alert]');
  await context.close();
  const found = await mongo.db.collection<{ _id: string }>('commands').findOne({ _id });
  t.notOk('letter' in (found ?? {}), 'nothing was changed');
});
