import { SpanKind } from '@opentelemetry/api';
import t from 'tap';
import { traceIdOf } from '#shared/kernel/cause.ts';
import { CALLER, CHAIN, openHall, refuseFirstDeliveries, submit, TRACE } from '#testing/doors/traced-hall.ts';
import { recordSpans } from '#testing/recorded-spans.ts';

const { SERVER, PRODUCER, CONSUMER, CLIENT } = SpanKind;
const SUBMIT = 'POST /v1/attempts/:attemptId/submit';

t.test('a submit, its grade, its notices, their deliveries and the calls of the receiver are one trace', async (t) => {
  const hall = await openHall(t);
  const spans = await recordSpans(t);
  await submit(t, hall, CALLER);
  await hall.run(...CHAIN);

  const commands = await hall.commands();
  const queues = commands.map(({ queue }) => queue).sort();
  const [parent, student, report] = ['gradenotices:parent', 'gradenotices:student', 'upkeep:analytics'];
  t.strictSame(queues, ['delivery:webhook', 'delivery:webhook', parent, student, 'grading', report]);
  for (const { cause, queue, status } of commands) {
    t.not(status, 'PENDING', queue);
    t.match(cause, { requestId: 'request-7', tracestate: 'rojo=1' }, queue);
  }
  t.strictSame(new Set(commands.map(({ cause }) => traceIdOf(cause))), new Set([TRACE]));
  t.strictSame(new Set(spans.all().map((span) => span.spanContext().traceId)), new Set([TRACE]));

  const lines = spans.named('process delivery:webhook').map((span) => spans.line(span));
  t.equal(lines.length, 2);
  t.strictSame(
    lines.find((line) => line.some(([name]) => name === 'process gradenotices:student')),
    [
      ['process delivery:webhook', CONSUMER],
      ['create delivery:webhook', PRODUCER],
      ['transaction', CLIENT],
      ['POST /v1/events/notification', SERVER],
      ['POST', CLIENT],
      ['process gradenotices:student', CONSUMER],
      ['create gradenotices:student', PRODUCER],
      ['transaction', CLIENT],
      ['process grading', CONSUMER],
      ['create grading', PRODUCER],
      [SUBMIT, SERVER],
    ],
  );
  t.equal(spans.named(SUBMIT)[0]?.parentSpanContext?.spanId, '00f067aa0ba902b7', 'the span of the caller');
  t.match(spans.named(SUBMIT)[0]?.attributes, { 'http.route': '/v1/attempts/:attemptId/submit' });
  const hooks = hall.neighbours.calls.filter(({ path }) => path === '/hook');
  t.equal(hooks.length, 2);
  for (const { headers } of hooks) {
    t.match(headers, { 'x-request-id': 'request-7', traceparent: new RegExp(`^00-${TRACE}-`), tracestate: 'rojo=1' });
  }
  const noPerson = JSON.stringify(spans.all().map(({ attributes, events }) => [attributes, events]));
  t.notMatch(noPerson, /student-|parent-1/, 'no attribute has the id of a person');
});

t.test('the retries of a command are spans of one trace with the same parent', async (t) => {
  const hall = await openHall(t);
  const spans = await recordSpans(t);
  refuseFirstDeliveries(hall);
  await submit(t, hall, CALLER);
  await hall.run(...CHAIN);
  const runs = spans.named('process delivery:webhook');
  const again = runs.filter((span) => span.attributes['examhall.command.attempt'] === 2);
  t.equal(again.length, 2);
  for (const second of again) {
    const id = second.attributes['messaging.message.id'];
    const both = runs.filter((span) => span.attributes['messaging.message.id'] === id);
    t.equal(both.length, 2, 'two spans for two runs');
    t.equal(new Set(both.map((span) => span.parentSpanContext?.spanId)).size, 1);
    t.match(both[0], { attributes: { 'error.type': 'retried' }, status: { code: 2 } });
    t.match(both[1], { attributes: { 'examhall.command.ending': 'done' }, status: { code: 0 } });
  }
});
