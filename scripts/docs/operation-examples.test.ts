import t from 'tap';
import { openApi } from '#testing/doors/checked-api.ts';
import { examplesOf, type Success, successesOf } from './operation-examples.ts';
import type { ShownReply } from './page.ts';
import type { RecordedCall } from './recording-proxy.ts';
import type { ExampleRun } from './run-page.ts';

const responses = {};
const api = openApi({
  paths: {
    '/v1/things/{id}': { get: { operationId: 'readThing', responses } },
    '/v1/things/all': { get: { operationId: 'listThings', responses } },
    '/v1/things': { post: { operationId: 'makeThing', requestBody: {}, responses } },
  },
});
const OLD = '01a20591-7f75-7f55-be3c-40634259aedf';
const NEW = '01a20591-89f4-75c6-84ef-5e7961a3becd';

function call(change: Partial<RecordedCall>): RecordedCall {
  const json = { success: true, data: {}, message: 'OK' };
  return { method: 'GET', target: '/v1/things/7', sent: '', status: 200, headers: {}, text: '', json, ...change };
}

function run(calls: RecordedCall[], reply: ShownReply | null = null): ExampleRun {
  return { step: { kind: 'example', line: 1, script: '', reply }, calls, output: '' };
}

function success(change: Partial<Success>): Success {
  return { operation: 'readThing', status: '200', shown: undefined, request: undefined, reply: { n: 1 }, ...change };
}

t.test('a call belongs to the operation of its path, a literal one first', async (t) => {
  t.equal(api.find('GET', '/v1/things/7?x=1')?.operationId, 'readThing');
  t.equal(api.find('GET', '/v1/things/all')?.operationId, 'listThings');
  t.equal(api.find('POST', '/v1/things/7'), undefined);
});

t.test('only successes of operations are examples, and an absent body is an empty object', async (t) => {
  const calls = [
    call({ status: 404 }),
    call({ target: '/elsewhere' }),
    call({ method: 'POST', target: '/v1/things', status: 201 }),
  ];
  t.match(successesOf(run(calls), api, new Map()), [
    { operation: 'makeThing', status: '201', request: {}, shown: undefined },
  ]);
});

t.test('an example has the ids of its page in request and reply', async (t) => {
  const json = { success: true, data: { id: NEW, more: 1 }, message: 'OK' };
  const shown = { success: true, data: { id: OLD, '…': '… 1 more' }, message: 'OK' };
  const sent = JSON.stringify({ token: `eyJ${'a'.repeat(40)}.b.c`, id: NEW });
  const made = call({ method: 'POST', target: '/v1/things', sent, json });
  const reply = { kind: 'json', line: 1, status: 200, body: shown } as const;
  const [found] = successesOf(run([made], reply), api, new Map([[OLD, NEW]]));
  t.strictSame(found?.reply, { success: true, data: { id: OLD, more: 1 }, message: 'OK' });
  t.strictSame(found?.request, { token: `eyJ${'a'.repeat(17)}…`, id: OLD });
  t.strictSame(found?.shown, shown);
});

t.test('a stream is an example as far as its page shows it', async (t) => {
  const stream = call({ json: undefined, text: 'event: snapshot\n\nevent: heartbeat\n\n' });
  t.strictSame(successesOf(run([stream]), api, new Map()), []);
  const reply = { kind: 'text', line: 1, status: null, text: 'event: snapshot\n' } as const;
  const [found] = successesOf(run([stream], reply), api, new Map());
  t.equal(found?.reply, 'event: snapshot');
});

t.test('a reply that a page shows comes before one that it hides', async (t) => {
  const all = [
    success({ reply: { n: 1 } }),
    success({ reply: { n: 2 }, shown: { n: 2 } }),
    success({ status: '202', reply: 3 }),
  ];
  t.strictSame(examplesOf(all, {}), { readThing: { replies: { 200: { n: 2 }, 202: 3 } } });
});

t.test('an earlier example stays if only ids and times differ', async (t) => {
  const before = { readThing: { request: { id: OLD }, replies: { 200: { at: '2026-01-01T00:00:00.000Z' } } } };
  const now = success({ request: { id: NEW }, reply: { at: '2026-02-02T00:00:00.000Z' } });
  t.strictSame(examplesOf([now], before), before);
  t.match(examplesOf([{ ...now, reply: { at: 1 } }], before), { readThing: { replies: { 200: { at: 1 } } } });
  const gone = { ...now, shown: {}, reply: {} };
  t.strictSame(examplesOf([gone], before).readThing?.replies, { 200: {} }, 'a field that the product lost');
});

t.test('an earlier example keeps what the page leaves out, because it depends on the run', async (t) => {
  const before = { readThing: { replies: { 200: { n: 1, list: [{ done: 3, id: 7 }] } } } };
  const now = success({ shown: { n: 1, '…': '… 1 more' }, reply: { n: 1, list: [{ done: 4, id: 8 }] } });
  t.strictSame(examplesOf([now], before), before);
  const cut = success({ shown: { n: 1, list: ['… 2 more'] }, reply: { n: 1, list: [{ done: 5, id: 9 }, {}] } });
  t.strictSame(examplesOf([cut], before), before);
  t.match(examplesOf([{ ...now, reply: { n: 2, list: [] } }], before), { readThing: { replies: { 200: { n: 2 } } } });
});
