import fc from 'fast-check';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { causeOfRequest, traceIdOf, traceparentOf, tracestateOf } from './cause.ts';
import { derivedId, isNewId, isPersonId, newId } from './ids.ts';

const PARENT = '01a2059e-79b6-7fd1-826e-3a08970562b0';

t.test('a part of a stored object keeps its id for ever', async (t) => {
  // Ids that clients have received. Other values would be ids of parts that no client knows.
  t.equal(derivedId(PARENT, 'question:0'), '01a2059e-79b6-7875-a849-2c9d75cde4ff');
  t.equal(derivedId(PARENT, 'event:17'), '01a2059e-79b6-7b9d-8d0e-3b39065cdc11');
  t.equal(derivedId('not hexadecimal', 'question:0'), '00000000-0000-75b2-a148-dd230dceb0b5');
  t.equal(derivedId('01a2', 'câu hỏi'), '01a20000-0000-72aa-9eeb-2f282521055b');
});

t.test('new and derived ids are UUIDs of version 7', async (t) => {
  const moments = fc.integer({ min: 0, max: 2 ** 48 - 1 });
  fc.assert(
    fc.property(moments, fc.string(), (now, name) => isNewId(newId(now)) && isNewId(derivedId(newId(now), name))),
  );
  t.equal(newId(0x01_9a_bc_de_f0_12).slice(0, 13), '019abcde-f012', 'they begin with the time');
  t.not(newId(1), newId(1));
});

t.test('the parts of one parent, and one part of two parents, have different ids', async (t) => {
  const ids = [PARENT, newId()].flatMap((parent) => [0, 1].map((n) => derivedId(parent, `question:${n}`)));
  t.equal(new Set(ids).size, 4);
});

const schemaFaults = loadSchemas().validator('common/person-id');

t.test('the ids of common identity providers are ids of persons', async (t) => {
  for (const id of [
    'student-1',
    'auth0|5f7c',
    'google-oauth2|1',
    'a+b@x.vn',
    'u/1',
    '{6f9619ff-8b86}',
    'dGVzdA==',
    '~',
  ]) {
    t.ok(isPersonId(id), id);
  }
  for (const id of ['', 'p 1', 'x\n', 'é', 'a,b', 'a"b', '\u202ea', 'x'.repeat(129), 1, null])
    t.notOk(isPersonId(id), `${id}`);
});

t.test('bodies and headers accept the same ids', async () => {
  const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 130 }), fc.stringMatching(/^[ -~]{0,129}$/));
  fc.assert(fc.property(text, (id) => isPersonId(id) === (schemaFaults(id).length === 0)));
});

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const TRACEPARENT = `00-${TRACE}-${SPAN}-01`;

t.test('reads a traceparent of version 00 as it is', async (t) => {
  t.equal(traceparentOf(TRACEPARENT), TRACEPARENT);
  t.equal(traceparentOf(` ${TRACEPARENT}\t`), TRACEPARENT, 'optional white space is no part of a value');
  t.equal(traceIdOf({ traceparent: TRACEPARENT }), TRACE);
});

t.test('reads a traceparent of a later version as one of version 00', async (t) => {
  t.equal(traceparentOf(`cc-${TRACE}-${SPAN}-01-what-the-future-brings`), TRACEPARENT);
  t.equal(traceparentOf(`cc-${TRACE}-${SPAN}-fe`), `00-${TRACE}-${SPAN}-00`, 'only the sampled flag is known');
});

t.test('ignores a malformed traceparent', async (t) => {
  const malformed = [
    undefined,
    '',
    [TRACEPARENT, TRACEPARENT],
    `${TRACEPARENT}, ${TRACEPARENT}`,
    `ff-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    TRACEPARENT.toUpperCase(),
    `${TRACEPARENT}-more`,
    `cc-${TRACE}-${SPAN}-01.more`,
    TRACEPARENT.slice(0, -1),
    `00-${TRACE.slice(1)}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01"\n`,
  ];
  for (const header of malformed) t.equal(traceparentOf(header), undefined, JSON.stringify(header));
});

t.test('accepts a short and valid tracestate', async (t) => {
  t.equal(tracestateOf('rojo=00f067aa0ba902b7'), 'rojo=00f067aa0ba902b7');
  t.equal(tracestateOf('congo=t61, ,t-1@vendor=a b\t,'), 'congo=t61,t-1@vendor=a b', 'empty members are dropped');
});

t.test('drops a tracestate that is long or malformed', async (t) => {
  const many = Array.from({ length: 33 }, (_, index) => `k${index}=v`).join();
  for (const header of ['', ',', 'key', '=v', 'Key=v', 'k=', 'k=a=b', 'k=1,k=2', 'k=ä', many, `k=${'v'.repeat(600)}`]) {
    t.equal(tracestateOf(header), undefined, header.slice(0, 20));
  }
});

t.test('takes the cause of a request from its id and headers', async (t) => {
  const traced = { traceparent: TRACEPARENT, tracestate: 'rojo=1' };
  t.strictSame(causeOfRequest('r1', traced), { requestId: 'r1', ...traced });
  t.strictSame(causeOfRequest('r1', { traceparent: TRACEPARENT, tracestate: 'ROJO' }), {
    requestId: 'r1',
    traceparent: TRACEPARENT,
  });
  t.strictSame(causeOfRequest('r1', { tracestate: 'rojo=1' }), { requestId: 'r1' }, 'a state belongs to a parent');
  t.equal(traceIdOf(causeOfRequest('r1', {})), undefined);
});
