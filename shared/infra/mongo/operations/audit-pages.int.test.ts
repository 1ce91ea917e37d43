import t from 'tap';
import { writeAudit } from '#infra/mongo/operator-audit.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { AUDIT_PAGE, type AuditFilter, readAuditPage } from './audit-pages.ts';

const mongo = await openTestMongo(t);
await createIndexes(mongo);
const NOW = Date.UTC(2026, 4, 4);
const ACTS = AUDIT_PAGE * 2 + 5;
/** Every third act has the time of the one before it. */
const timeOf = (n: number) => NOW + (n - (n % 3 === 0 ? 0 : 1)) * 1_000;

async function act(n: number): Promise<void> {
  const operator = n % 2 === 0 ? 'OPS_TOKEN' : 'ADMIN a-1';
  const action = n % 5 === 0 ? 'account.unlock' : 'account.show';
  await writeAudit(
    mongo,
    { operator, reason: `r-${n}`, now: timeOf(n) },
    { action, subject: `s-${n % 7}`, detail: {} },
  );
}

for (let n = 0; n < ACTS; n += 1) await act(n);

async function walk(filter: AuditFilter, between: () => Promise<void> = async () => undefined): Promise<string[]> {
  const seen: string[] = [];
  let cursor: string | null = null;
  do {
    const page = await readAuditPage(mongo, filter, cursor);
    if (page === null) throw new Error('a cursor of a page was refused');
    seen.push(...page.rows.map(({ reason }) => reason));
    cursor = page.nextCursor;
    await between();
  } while (cursor !== null);
  return seen;
}

const expected = (isWanted: (n: number) => boolean) =>
  Array.from({ length: ACTS }, (_, n) => n)
    .filter(isWanted)
    .sort((a, b) => timeOf(b) - timeOf(a) || b - a)
    .map((n) => `r-${n}`);

t.test('a walk meets each act once, the newest first', async (t) => {
  t.strictSame(
    await walk({}),
    expected(() => true),
  );
});

t.test('filters combine', async (t) => {
  t.strictSame(
    await walk({ operator: 'ADMIN a-1' }),
    expected((n) => n % 2 === 1),
  );
  t.strictSame(
    await walk({ action: 'account.unlock' }),
    expected((n) => n % 5 === 0),
  );
  t.strictSame(
    await walk({ subject: 's-3', operator: 'OPS_TOKEN' }),
    expected((n) => n % 7 === 3 && n % 2 === 0),
  );
  t.strictSame(await walk({ subject: 'unknown' }), []);
});

t.test('a cursor that no page contained is refused', async (t) => {
  for (const cursor of ['', 'x', '1', '.', '1.', '{"$gt":""}', '1.a b', `1.${'a'.repeat(65)}`])
    t.equal(await readAuditPage(mongo, {}, cursor), null, cursor);
});

t.test('acts that are added during a walk change nothing in it', async (t) => {
  const before = expected(() => true);
  let added = ACTS + 10;
  t.strictSame(
    await walk({}, async () => {
      added += 1;
      await act(added);
    }),
    before,
  );
});
