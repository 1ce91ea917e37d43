import t from 'tap';
import { tombstoneId } from '#infra/mongo/erased-persons.ts';
import { writeAudit } from '#infra/mongo/operator-audit.ts';
import { ask, openTestDoor } from '#testing/doors/test-door.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { auditRoutes } from './audit.ts';

const SECRET = 'ops-token-of-this-test';
const mongo = await openTestMongo(t);
const { port } = await openTestDoor(t, { routes: auditRoutes({ mongo, opsToken: [SECRET] }), schemas: 'product' });
const get = (query: string, headers = [`Authorization: Bearer ${SECRET}`]) =>
  ask(t, port, 'GET', `/v1/ops/audit${query}`, headers);
const examhall = (...words: string[]) => callExamhall(mongo, ['audit', ...words]);

const READER = 'ADMIN a-1';
const READ = { action: 'account.trace', subject: await tombstoneId(mongo, 'student-7'), detail: { lines: 3 } } as const;
for (let n = 0; n < 5; n += 1) {
  const act = { operator: n % 2 === 0 ? READER : 'OPS_TOKEN', reason: `r-${n}`, now: Date.now() + n };
  await writeAudit(mongo, act, n === 4 ? { action: 'account.unlock', subject: 'account-1', detail: {} } : READ);
}

t.test('the route and the command return the same rows for each filter and page', async (t) => {
  const same: [query: string, words: string[], rows: number][] = [
    ['?limit=20', [], 5],
    ['?operator=ADMIN%20a-1', ['--by', READER], 3],
    ['?act=account.trace&limit=2', ['--act', 'account.trace', '--limit', '2'], 2],
    [`?subject=${READ.subject}&operator=OPS_TOKEN`, ['--subject', READ.subject, '--by', 'OPS_TOKEN'], 2],
    ['?subject=unknown', ['--subject', 'unknown'], 0],
  ];
  for (const [query, words, count] of same) {
    const { data } = (await get(query)).json;
    t.equal(data.rows.length, count, query);
    t.strictSame(JSON.parse((await examhall('list', '--json', ...words)).out), data, query);
  }
  const { data } = (await get('?limit=3')).json;
  const rest = (await get(`?limit=3&cursor=${data.nextCursor}`)).json.data;
  t.strictSame(
    [...data.rows, ...rest.rows].map(({ reason }) => reason),
    ['r-4', 'r-3', 'r-2', 'r-1', 'r-0'],
  );
  t.equal(rest.nextCursor, null);
  const { out } = await examhall('--limit', '3');
  t.match(out, `more follow: pass --cursor ${data.nextCursor}`);
  t.strictSame(JSON.parse((await examhall('--limit', '3', '--cursor', data.nextCursor, '--json')).out), rest);
});

t.test('the digest that `examhall hash` prints finds who read a person', async (t) => {
  const { subject } = JSON.parse((await callExamhall(mongo, ['hash', 'student-7', '--json'])).out);
  t.match((await examhall('--subject', subject)).out, /ADMIN a-1 +account\.trace/);
});

t.test('a faulty page is refused, and only the holder of OPS_TOKEN and an ADMIN read the audit', async (t) => {
  for (const query of ['?cursor=x', '?limit=0', '?limit=201', '?operator[$ne]=x'])
    t.match(await get(query), { status: 400, json: { code: 'VALIDATION_FAILED' } }, query);
  t.match(await examhall('--cursor', 'x'), { code: 2, out: '', err: /--cursor must be/ });
  t.equal((await get('', ['X-User-Id: an', 'X-User-Role: ADMIN'])).status, 200);
  t.equal((await get('', ['X-User-Id: an', 'X-User-Role: TEACHER'])).status, 403);
  t.equal((await get('', ['Authorization: Bearer wrong'])).status, 401);
});
