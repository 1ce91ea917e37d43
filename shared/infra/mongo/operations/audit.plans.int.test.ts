import t from 'tap';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { isStandInInPython, noneScans, planOf, watchFilters } from '#testing/stores/plans.ts';
import { readAuditPage } from './audit-pages.ts';

const ROWS = 20;

t.test('no page of the audit scans or sorts it', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  const rows = Array.from({ length: ROWS }, (_, n) => ({
    _id: `row-${String(n).padStart(2, '0')}`,
    operator: 'an',
    action: 'account.unlock' as const,
    subject: 'account-1',
    reason: 'the owner called',
    at: new Date(1_000 * Math.floor(n / 3)),
    detail: {},
  }));
  await operatorAudit(mongo).insertMany(rows as never);
  seen.clear();
  const filters = [{}, { operator: 'an' }, { action: 'account.unlock' }, { subject: 'account-1' }];
  for (const filter of filters) {
    const walked: string[] = [];
    let cursor: string | null = null;
    do {
      const page = await readAuditPage(mongo, filter, cursor, 4);
      walked.push(...(page?.rows.map(({ _id }) => _id) ?? []));
      cursor = page?.nextCursor ?? null;
    } while (cursor !== null);
    t.strictSame(walked, rows.map(({ _id }) => _id).reverse(), 'each row once, the newest first');
  }
  await noneScans(t, mongo, seen, 2 * filters.length);
  if (await isStandInInPython(mongo)) return;
  for (const filter of seen.values()) {
    const stages = (await planOf(mongo, filter)).join(' < ');
    t.match(stages, `IXSCAN ${filter.explainable.hint}`);
    t.notMatch(stages, /SORT/, 'a page is sorted by its index');
  }
});
