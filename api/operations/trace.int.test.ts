import t, { type Test } from 'tap';
import { behindGateway, gatewayToken } from '#api/http/guards/tokens.ts';
import { tombstoneId } from '#infra/mongo/erased-persons.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { ask, openTestDoor, type TestDoorOptions } from '#testing/doors/test-door.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo, requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { type TraceDeps, traceRoutes } from './trace.ts';

const mongo = await openTestMongo(t);
const SECRET = 'ops-token-of-this-test';
const OPS = `Authorization: Bearer ${SECRET}`;
interface Page {
  lines: { id: string }[];
  nextCursor: string | null;
}

const as = (role: string) => ['X-User-Id: someone', `X-User-Role: ${role}`];

async function open(t: Test, change: Partial<TraceDeps> = {}, gateway?: string) {
  const lines: object[] = [];
  const log: TraceDeps['log'] = { info: (fields) => void lines.push(fields) };
  const pingRedis = async () => undefined;
  const routes = traceRoutes({ mongo, now: Date.now, log, opsToken: [SECRET], pingRedis, ...change });
  const gate = gatewayToken(gateway === undefined ? {} : { gatewayToken: [gateway] });
  const options: TestDoorOptions = { routes: behindGateway(routes, gate) };
  const { port } = await openTestDoor(t, { ...options, schemas: 'product' });
  const read = (query: string, ...headers: string[]) => ask(t, port, 'GET', `/v1/ops/trace${query}`, headers);
  return { read, lines };
}

t.test('only the holder of OPS_TOKEN and an ADMIN read a trace', async (t) => {
  const { read } = await open(t);
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const query = `?id=${attempt._id}`;
  t.equal((await read(query, OPS)).status, 200);
  t.equal((await read(query, ...as('ADMIN'))).status, 200);
  t.equal((await read(query, 'Authorization: Bearer of-a-user', ...as('ADMIN'))).status, 200);
  for (const role of ['STUDENT', 'TEACHER', 'PARENT', 'admin']) {
    t.match(await read(query, ...as(role)), { status: 403, json: { code: 'FORBIDDEN', data: undefined } }, role);
  }
  for (const headers of [[], ['Authorization: Bearer wrong'], [OPS, OPS], ['X-User-Role: ADMIN']]) {
    t.match(await read(query, ...headers), { status: 401, json: { code: 'UNAUTHENTICATED' } }, headers.join());
  }
  const off = await open(t, { opsToken: undefined });
  t.equal((await off.read(query, OPS)).status, 401, 'without OPS_TOKEN only an ADMIN reads');
  t.equal((await off.read(query, ...as('ADMIN'))).status, 200);
});

t.test('an identity needs the token of the gateway, and OPS_TOKEN does not', async (t) => {
  const { read } = await open(t, {}, 'gateway-secret');
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const query = `?id=${attempt._id}`;
  t.equal((await read(query, ...as('ADMIN'))).status, 401);
  t.equal((await read(query, ...as('ADMIN'), 'X-Gateway-Token: gateway-secret')).status, 200);
  t.equal((await read(query, OPS)).status, 200);
});

t.test('a query names exactly one subject, and a cursor that a reply contained', async (t) => {
  const { read } = await open(t);
  for (const query of ['', '?id=a&exam=b', '?student=a&user=b', '?id=a&limit=0', '?id=a&limit=501', '?id=a&limit=x']) {
    t.match(await read(query, OPS), { status: 400, json: { code: 'VALIDATION_FAILED' } }, query);
  }
  for (const query of ['?id=a&id=b', '?id[$ne]=a', '?id=', `?id=${'a'.repeat(257)}`, '?id=a&cursor=x']) {
    t.match(await read(query, OPS), { status: 400, json: { code: 'VALIDATION_FAILED' } }, query);
  }
  t.match(await read('?id=unknown', OPS), { status: 404, json: { code: 'TRACE_NOT_FOUND' } });
});

t.test('the reply has the summary first, and pages that meet each line once', async (t) => {
  const { read, lines } = await open(t);
  const attempt = await storeAttempt(mongo, SUBMITTED);
  await postGrading(mongo, attempt);
  await read(`?id=${attempt._id}`, OPS);
  t.match(lines, [{ operator: 'OPS_TOKEN', asked: 'id', found: 'attempt' }, { action: 'object.trace' }]);
  const whole = (await read(`?id=${attempt._id}`, OPS)).json.data;
  t.match(whole, { subject: 'attempt', verdicts: [{ standing: 'stuck', code: 'NO_WORKER' }], nextCursor: null });
  const seen = [];
  let cursor: string | null = null;
  do {
    const page: Page = (await read(`?id=${attempt._id}&limit=1${cursor === null ? '' : `&cursor=${cursor}`}`, OPS)).json
      .data;
    seen.push(...page.lines);
    cursor = page.nextCursor;
  } while (cursor !== null);
  t.strictSame(
    seen.map(({ id }) => id),
    whole.lines.map(({ id }: { id: string }) => id),
  );
  t.notMatch(JSON.stringify(whole), /Sông Hương|"selected"|totalScore/, 'no answer and no score');
});

t.test('the tool prints with --json what the route returns, page by page', async (t) => {
  const { read } = await open(t);
  const attempt = await storeAttempt(mongo, SUBMITTED);
  await postGrading(mongo, attempt);
  const { account } = await storeSignedIn(mongo);
  const env = { REDIS_URL: requiredEnv('REDIS_URL') };
  const tool = (...words: string[]) => callExamhall(mongo, ['trace', ...words], { env });
  for (const [query, wanted] of [
    [`id=${attempt._id}`, attempt._id],
    [`exam=${attempt.examId}`, `exam:${attempt.examId}`],
    [`student=${attempt.studentId}`, `student:${attempt.studentId}`],
    [`user=${account._id}`, `user:${account._id}`],
  ] as const) {
    // The first read adds its own line to the trace.
    await read(`?${query}`, OPS);
    await tool(wanted);
    const { data } = (await read(`?${query}`, OPS)).json;
    t.ok(data.lines.length > 0, query);
    t.strictSame(timeless(JSON.parse((await tool(wanted, '--json')).out)), timeless(data), query);
  }
  const of = (page: string) => read(`?id=${attempt._id}&limit=1${page}`, OPS);
  const { nextCursor } = (await of('')).json.data;
  const second = (await of(`&cursor=${nextCursor}`)).json.data;
  const { out } = await tool(attempt._id, '--limit', '1', '--cursor', nextCursor, '--json');
  t.strictSame(timeless(JSON.parse(out)), timeless(second));
  t.match((await tool(attempt._id, '--limit', '1')).out, new RegExp(`^more follow: pass --cursor ${nextCursor}$`, 'm'));
  t.match(await tool(attempt._id, '--cursor', 'x'), { code: 2, out: '', err: /^error: --cursor must be/ });
});

/** Returns the data with other digits in its texts, which state ages. */
function timeless(value: object): unknown {
  return JSON.parse(JSON.stringify(value), (key, member) => (key === 'text' ? member.replaceAll(/\d+/g, 'N') : member));
}

t.test('the trace of a person is audited once an hour, under a digest of the id', async (t) => {
  const { read } = await open(t);
  const { account } = await storeSignedIn(mongo);
  for (let n = 0; n < 3; n++) t.equal((await read(`?user=${account._id}`, ...as('ADMIN'))).status, 200);
  const rows = await operatorAudit(mongo).find({ operator: 'ADMIN someone', action: 'account.trace' }).toArray();
  t.equal(rows.length, 1);
  t.notMatch(JSON.stringify(rows), account._id);
  const trace = (await read(`?user=${account._id}`, ...as('ADMIN'))).json;
  t.notMatch(JSON.stringify(trace), account.email, 'no e-mail');
  t.notMatch(JSON.stringify(trace), account.fullName, 'no name');
});

t.test('the trace of an object is audited once an hour, whichever of its ids an operator uses', async (t) => {
  const { read } = await open(t);
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const command = await postGrading(mongo, attempt);
  const traces = [
    { query: `id=${attempt._id}`, subject: attempt._id, kind: 'attempt' },
    { query: `exam=${attempt.examId}`, subject: attempt.examId, kind: 'exam' },
    { query: `id=${command._id}`, subject: await tombstoneId(mongo, command._id), kind: 'command' },
  ];
  for (const { query, subject, kind } of traces) {
    const replies = await Promise.all([1, 2, 3, 4, 5].map(() => read(`?${query}`, ...as('ADMIN'))));
    t.ok(replies.every(({ status }) => status === 200));
    const rows = await operatorAudit(mongo).find({ operator: 'ADMIN someone', subject }).toArray();
    t.match(rows, [{ action: 'object.trace', detail: { subject: kind } }], kind);
    t.equal(rows.length, 1, kind);
  }
});
