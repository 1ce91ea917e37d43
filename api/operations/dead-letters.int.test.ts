import t, { type Test } from 'tap';
import { findTombstone, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { findCommand } from '#infra/mongo/mailbox/dead-letters.ts';
import { operatorAudit, writeAudit } from '#infra/mongo/operator-audit.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { newId } from '#shared/kernel/ids.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { ask, openTestDoor } from '#testing/doors/test-door.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { postBulkAct, storeDeadGrading } from '#testing/stored/stored-dead-letters.ts';
import { postDelivery } from '#testing/stored/stored-notifications.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { auditRoutes } from './audit.ts';
import { deadLetterRoutes } from './dead-letters.ts';

const SECRET = 'ops-token-of-this-test';
const OPS = `Authorization: Bearer ${SECRET}`;
const ADMIN = ['X-User-Id: an', 'X-User-Role: ADMIN'];
const REASON = 'the disk was cleared';

async function open(t: Test) {
  const mongo = await openTestMongo(t);
  const logged: object[] = [];
  const log = { info: (fields: object) => void logged.push(fields) };
  const routes = deadLetterRoutes({ mongo, now: Date.now, log, opsToken: [SECRET], commandAttempts: 10 });
  const { port } = await openTestDoor(t, { routes, schemas: 'product' });
  const get = (path: string, headers: readonly string[] = [OPS]) =>
    ask(t, port, 'GET', `/v1/ops/dead-letters${path}`, [...headers]);
  const post = (path: string, body: object, headers: readonly string[] = [OPS]) => {
    const type = 'Content-Type: application/json';
    return ask(t, port, 'POST', `/v1/ops/dead-letters${path}`, [...headers, type], JSON.stringify(body));
  };
  const examhall = async (...args: string[]) => JSON.parse((await callExamhall(mongo, ['dead', ...args])).out);
  return { mongo, get, post, examhall, logged };
}

const audited = await openTestMongo(t);
const auditDoor = await openTestDoor(t, {
  routes: auditRoutes({ mongo: audited, opsToken: [SECRET] }),
  schemas: 'product',
});

const READER = 'ADMIN a-1';
const READ = {
  action: 'account.trace',
  subject: await tombstoneId(audited, 'student-7'),
  detail: { lines: 3 },
} as const;
for (let n = 0; n < 5; n += 1) {
  const act = { operator: n % 2 === 0 ? READER : 'OPS_TOKEN', reason: `r-${n}`, now: Date.now() + n };
  await writeAudit(audited, act, n === 4 ? { action: 'account.unlock', subject: 'account-1', detail: {} } : READ);
}

t.test('each route answers as the command of its name does with --json', async (t) => {
  const { mongo, get, post, examhall } = await open(t);
  const [one] = [await storeDeadGrading(mongo), await storeDeadGrading(mongo, 'another cause')];
  const act = await postBulkAct(mongo, { filter: { cause: 'none' } });
  const data = async (reply: ReturnType<typeof get>) => (await reply).json.data;
  t.strictSame(await examhall('list', '--json'), await data(get('')));
  t.strictSame(await examhall('list', '--each', '--json'), await data(get('/list')));
  const first = await data(get('/list?queue=grading&limit=1'));
  const page = ['list', '--each', '--queue', 'grading', '--limit', '1', '--json'];
  t.strictSame(await examhall(...page), first);
  const { nextCursor } = first;
  t.strictSame(
    await examhall(...page, '--cursor', nextCursor),
    await data(get(`/list?queue=grading&limit=1&cursor=${nextCursor}`)),
  );
  t.strictSame(await examhall('jobs', '--json'), await data(get('/jobs')));
  t.strictSame(await examhall('jobs', act._id), await data(get(`/jobs/${act._id}`)));
  const why = ['--reason', REASON, '--json'];
  t.strictSame(
    await examhall('replay', one._id, ...why),
    await data(post('/replay', { ids: [one._id], reason: REASON })),
  );
  const all = await examhall('drop', '--queue', 'grading', '--all', ...why);
  t.strictSame(all, await data(post('/drop', { filter: { queue: 'grading' }, reason: REASON })));
  t.match(all, { dryRun: true, counted: 2, groups: [{ count: 1 }, { count: 1 }] });
  const { _id, body, progress, result, lastError, ...rest } = await examhall('show', one._id);
  const shown = await data(get(`/${one._id}`));
  t.match(shown, { id: _id, error: lastError, subject: rest.subject, attempts: rest.attempts, superseded: false });
  t.ok(body.attemptId, 'the command line prints the body');
  t.notMatch(JSON.stringify(shown), /body|studentId|student-/, 'the route does not');
});

t.test('only the holder of OPS_TOKEN and an ADMIN act, and the audit names them', async (t) => {
  const { mongo, get, post, logged } = await open(t);
  const [one, other] = [await storeDeadGrading(mongo), await storeDeadGrading(mongo)];
  const teacher = ['X-User-Id: an', 'X-User-Role: TEACHER'];
  for (const path of ['', '/list', '/jobs', `/jobs/${one._id}`, `/${one._id}`]) {
    t.match(await get(path, teacher), { status: 403 }, path);
    t.match(await get(path, []), { status: 401 }, path);
  }
  const order = (id: string) => ({ ids: [id], reason: REASON, dryRun: false });
  for (const path of ['/replay', '/ack', '/drop', `/jobs/${one._id}/stop`]) {
    t.match(await post(path, order(one._id), teacher), { status: 403 }, path);
    t.match(await post(path, order(one._id), []), { status: 401 }, path);
  }
  t.match(await post('/ack', order(one._id), ADMIN), { status: 200, json: { data: { rows: [{ outcome: 'done' }] } } });
  t.match(await post('/replay', order(other._id)), { status: 200, json: { data: { dryRun: false, counted: 1 } } });
  t.match(await operatorAudit(mongo).find({}).sort({ _id: 1 }).toArray(), [
    { action: 'dead.ack', operator: 'ADMIN an', reason: REASON, commandId: one._id },
    { action: 'dead.replay', operator: 'OPS_TOKEN', reason: REASON, commandId: other._id },
  ]);
  t.match(logged, [{ action: 'dead.ack' }, { action: 'dead.replay', requestId: /./ }]);
});

t.test('an act is a dry run unless dryRun is false, and takes ids or a filter', async (t) => {
  const { mongo, post } = await open(t);
  const { _id: id } = await storeDeadGrading(mongo);
  t.match(await post('/drop', { ids: [id, 'unknown', id], reason: REASON }), {
    status: 200,
    json: { data: { dryRun: true, rows: [{ id, outcome: 'dry run' }], unknown: ['unknown'], counted: 1 } },
  });
  t.notOk('letter' in ((await findCommand(mongo, id)) ?? {}));
  const faults: [body: object, path?: string][] = [
    [{ reason: REASON }],
    [{ ids: [id], filter: { queue: 'grading' }, reason: REASON }],
    [{ filter: {}, reason: REASON }, '/filter'],
    [{ filter: { queue: 'nope' }, reason: REASON }, '/filter/queue'],
    [{ ids: [id], reason: 'no' }, '/reason'],
    [{ ids: [id], reason: '     ', dryRun: false }, '/reason'],
    [{ ids: [id], reason: ' four ' }, '/reason'],
    [{ ids: [], reason: REASON }, '/ids'],
    [{ ids: [id] }],
    [{ ids: [id], reason: REASON, perSecond: 201 }, '/perSecond'],
    [{ ids: [id], reason: REASON, chargeSuperseded: true }, '/chargeSuperseded'],
    [{ ids: [id], reason: REASON, force: true }],
  ];
  for (const [body, path] of faults) {
    const details = path === undefined ? undefined : [{ path }];
    const code = 'VALIDATION_FAILED';
    t.match(
      await post('/drop', body),
      { status: 400, json: { code, ...(details && { details }) } },
      JSON.stringify(body),
    );
  }
  t.match(await post('/drop', { ids: [id], reason: REASON, dryRun: false }), {
    json: { data: { dryRun: false, rows: [{ outcome: 'done' }] } },
  });
  t.match(await post('/drop', { ids: [id], reason: REASON, dryRun: false }), {
    json: { data: { rows: [{ outcome: 'skipped', why: /already dropped/ }], counted: 0 } },
  });
});

t.test('a bulk act for an erased person is refused, and the id is not stored again', async (t) => {
  const { mongo, post } = await open(t);
  const person = `student-${newId()}`;
  const order = { filter: { subject: person }, reason: REASON, key: newId() };
  t.match(await post('/ack', { ...order, key: newId(), dryRun: false }), { status: 202 });
  await erasePerson(mongo, person, { operator: 'an', reason: REASON, now: Date.now() });
  t.match(await findTombstone(mongo, person), { state: 'ERASED' });
  const before = await operatorAudit(mongo).countDocuments({});
  for (const act of ['replay', 'ack', 'drop']) {
    t.match(await post(`/${act}`, order), { status: 200, json: { data: { dryRun: true, counted: 0 } } });
    const refused = await post(`/${act}`, { ...order, dryRun: false });
    t.match(refused, { status: 410, json: { code: 'PERSON_ERASED' } }, act);
  }
  const all = ['dead', 'drop', '--subject', person, '--all', '--reason', REASON, '--yes'];
  t.match(await callExamhall(mongo, all), { code: 1, out: '', err: /^error: --subject is an erased person/ });
  const commands = await mongo.db.collection('commands').find({}).toArray();
  t.match(commands, [{ queue: 'upkeep:deadletters', subject: /^erased-/ }], 'the act of before');
  t.notMatch(JSON.stringify(commands), person);
  t.equal(await operatorAudit(mongo).countDocuments({}), before);
});

t.test('a filter posts one bulk act for each key, which can be read and stopped', async (t) => {
  const { mongo, get, post } = await open(t);
  for (let n = 0; n < 3; n++) await storeDeadGrading(mongo);
  const order = { filter: { queue: 'grading' }, reason: REASON, dryRun: false, key: newId(), perSecond: 200 };
  const replies = await Promise.all(Array.from({ length: 4 }, () => post('/replay', order)));
  const ids = new Set(replies.map(({ status, json }) => `${status} ${json.data.id}`));
  t.equal(ids.size, 1, 'four requests with one key: one act');
  const { id } = replies[0]?.json.data ?? {};
  t.match(replies[0], { status: 202, json: { data: { state: 'WAITING', counted: 3, operator: 'OPS_TOKEN' } } });
  const other = { ...order, reason: 'another reason' };
  t.match(await post('/replay', other), { status: 409, json: { code: 'BULK_ACT_KEY_REUSED' } });
  t.match(await get(`/jobs/${id}`), { status: 200, json: { data: { id, state: 'WAITING' } } });
  const [act] = await mongo.db.collection('commands').find({ queue: 'upkeep:deadletters' }).toArray();
  const wanted = { _id: id, queue: 'upkeep:deadletters', key: act?.key } as const;
  t.equal(await runCommand(testKernel(mongo), makeActor('upkeep', testWorkerDeps(mongo)), wanted), 'done');
  t.match(await get(`/jobs/${id}`), { json: { data: { state: 'DONE', done: 3, endedAt: /Z$/ } } });
  const why = { reason: 'too late' };
  t.match(await post(`/jobs/${id}/stop`, why), { status: 409, json: { code: 'BULK_ACT_ENDED' } });
  t.match(await post(`/jobs/${id}/stop`, { reason: '      ' }), { status: 400, json: { code: 'VALIDATION_FAILED' } });
  t.match(await post('/jobs/unknown/stop', why), { status: 404, json: { code: 'BULK_ACT_NOT_FOUND' } });
  t.match(await get('/jobs/unknown'), { status: 404, json: { code: 'BULK_ACT_NOT_FOUND' } });
  const next = (await post('/drop', { ...order, key: newId() })).json.data;
  for (let n = 0; n < 2; n++) {
    t.match(await post(`/jobs/${next.id}/stop`, { reason: 'a mistake' }), {
      status: 200,
      json: { data: { state: 'STOPPING', stoppedBy: 'OPS_TOKEN' } },
    });
  }
  t.match((await get('/jobs?limit=1')).json.data.jobs, [{ id: next.id }]);
});

t.test('a list has pages that meet each letter once, over all queues', async (t) => {
  const { mongo, get } = await open(t);
  const letters: string[] = [];
  for (let n = 0; n < 4; n++) letters.push((await storeDeadGrading(mongo))._id);
  const delivery = await postDelivery(mongo);
  const error = { fingerprint: 'Error: refused', message: 'refused', at: new Date() };
  const dead = { status: 'DEAD', settledAt: new Date(), lastError: error };
  await mongo.db
    .collection<{ _id: string }>('notification_deliveries')
    .updateOne({ _id: delivery._id }, { $set: dead });
  letters.push(delivery._id);
  const seen: string[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: { letters: { id: string }[]; nextCursor: string | null } = (
      await get(`/list?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`)
    ).json.data;
    t.ok(page.letters.length <= 2);
    seen.push(...page.letters.map(({ id }) => id));
    cursor = page.nextCursor;
  }
  t.strictSame(seen.toSorted(), letters.toSorted());
  t.equal((await get('/list?cause=Error%3A%20refused')).json.data.letters.length, 1);
  t.match((await get(`/${delivery._id}`)).json.data, { state: 'DEAD_LETTERED', queue: /^delivery:/ });
  t.match(await get('/unknown'), { status: 404, json: { code: 'DEAD_LETTER_NOT_FOUND' } });
  t.match((await get('/list?dropped=true')).json.data, { letters: [], nextCursor: null });
  for (const query of ['?cursor=x', '?limit=0', '?limit=501', '?queue=nope', '?since=today'])
    t.match(await get(`/list${query}`), { status: 400, json: { code: 'VALIDATION_FAILED' } }, query);
});
const readAudit = (query: string, headers = [OPS]) => ask(t, auditDoor.port, 'GET', `/v1/ops/audit${query}`, headers);
const examhallAudit = (...words: string[]) => callExamhall(audited, ['audit', ...words]);

t.test('the route and the command return the same rows for each filter and page', async (t) => {
  const same: [query: string, words: string[], rows: number][] = [
    ['?limit=20', [], 5],
    ['?operator=ADMIN%20a-1', ['--by', READER], 3],
    ['?act=account.trace&limit=2', ['--act', 'account.trace', '--limit', '2'], 2],
    [`?subject=${READ.subject}&operator=OPS_TOKEN`, ['--subject', READ.subject, '--by', 'OPS_TOKEN'], 2],
    ['?subject=unknown', ['--subject', 'unknown'], 0],
  ];
  for (const [query, words, count] of same) {
    const { data } = (await readAudit(query)).json;
    t.equal(data.rows.length, count, query);
    t.strictSame(JSON.parse((await examhallAudit('list', '--json', ...words)).out), data, query);
  }
  const { data } = (await readAudit('?limit=3')).json;
  const rest = (await readAudit(`?limit=3&cursor=${data.nextCursor}`)).json.data;
  t.strictSame(
    [...data.rows, ...rest.rows].map(({ reason }) => reason),
    ['r-4', 'r-3', 'r-2', 'r-1', 'r-0'],
  );
  t.equal(rest.nextCursor, null);
  const { out } = await examhallAudit('--limit', '3');
  t.match(out, `more follow: pass --cursor ${data.nextCursor}`);
  t.strictSame(JSON.parse((await examhallAudit('--limit', '3', '--cursor', data.nextCursor, '--json')).out), rest);
});

t.test('the digest that `examhall hash` prints finds who read a person', async (t) => {
  const { subject } = JSON.parse((await callExamhall(audited, ['hash', 'student-7', '--json'])).out);
  t.match((await examhallAudit('--subject', subject)).out, /ADMIN a-1 +account\.trace/);
});

t.test('a faulty page is refused, and only the holder of OPS_TOKEN and an ADMIN read the audit', async (t) => {
  for (const query of ['?cursor=x', '?limit=0', '?limit=201', '?operator[$ne]=x'])
    t.match(await readAudit(query), { status: 400, json: { code: 'VALIDATION_FAILED' } }, query);
  t.match(await examhallAudit('--cursor', 'x'), { code: 2, out: '', err: /--cursor must be/ });
  t.equal((await readAudit('', ADMIN)).status, 200);
  t.equal((await readAudit('', ['X-User-Id: an', 'X-User-Role: TEACHER'])).status, 403);
  t.equal((await readAudit('', ['Authorization: Bearer wrong'])).status, 401);
});
