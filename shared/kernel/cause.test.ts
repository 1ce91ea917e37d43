import t from 'tap';
import { causeOfRequest, traceIdOf, traceparentOf, tracestateOf } from './cause.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const PARENT = `00-${TRACE}-${SPAN}-01`;

t.test('reads a traceparent of version 00 as it is', async (t) => {
  t.equal(traceparentOf(PARENT), PARENT);
  t.equal(traceparentOf(` ${PARENT}\t`), PARENT, 'optional white space is no part of a value');
  t.equal(traceIdOf({ traceparent: PARENT }), TRACE);
});

t.test('reads a traceparent of a later version as one of version 00', async (t) => {
  t.equal(traceparentOf(`cc-${TRACE}-${SPAN}-01-what-the-future-brings`), PARENT);
  t.equal(traceparentOf(`cc-${TRACE}-${SPAN}-fe`), `00-${TRACE}-${SPAN}-00`, 'only the sampled flag is known');
});

t.test('ignores a malformed traceparent', async (t) => {
  const malformed = [
    undefined,
    '',
    [PARENT, PARENT],
    `${PARENT}, ${PARENT}`,
    `ff-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    PARENT.toUpperCase(),
    `${PARENT}-more`,
    `cc-${TRACE}-${SPAN}-01.more`,
    PARENT.slice(0, -1),
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
  const traced = { traceparent: PARENT, tracestate: 'rojo=1' };
  t.strictSame(causeOfRequest('r1', traced), { requestId: 'r1', ...traced });
  t.strictSame(causeOfRequest('r1', { traceparent: PARENT, tracestate: 'ROJO' }), {
    requestId: 'r1',
    traceparent: PARENT,
  });
  t.strictSame(causeOfRequest('r1', { tracestate: 'rojo=1' }), { requestId: 'r1' }, 'a state belongs to a parent');
  t.equal(traceIdOf(causeOfRequest('r1', {})), undefined);
});
