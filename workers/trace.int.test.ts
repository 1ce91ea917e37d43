import { SpanKind } from '@opentelemetry/api';
import t, { type Test } from 'tap';
import { MAX_IN_TRACE } from '#infra/trace/spans.ts';
import { type Cause, traceIdOf } from '#shared/kernel/cause.ts';
import { callHttp } from '#testing/clients/http-call.ts';
import {
  CALLER,
  CHAIN,
  type Hall,
  openHall,
  PAPER,
  RIGHT,
  refuseFirstDeliveries,
  submit,
  TOKEN,
  TRACE,
} from '#testing/doors/traced-hall.ts';
import { type RecordedSpans, recordSpans } from '#testing/recorded-spans.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { gradeNoticesActor } from './grade-notices/actor.ts';
import { resultsReleaseActor } from './results-release/actor.ts';

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

t.test('the trail needs no SDK: commands and neighbours get what the caller sent', async (t) => {
  const hall = await openHall(t);
  await submit(t, hall, CALLER);
  await hall.run(...CHAIN);
  const { traceparent, tracestate } = CALLER;
  const cause: Cause = { requestId: 'request-7', traceparent, tracestate };
  const commands = await hall.commands();
  t.equal(commands.length, 6);
  for (const command of commands) t.strictSame(command.cause, cause, command.queue);
  t.ok(hall.neighbours.calls.length > 3, 'profile, analytics and the webhook receiver');
  for (const { headers, path } of hall.neighbours.calls) t.match(headers, CALLER, path);
});

t.test('the line of a request, and one line for each command that it causes, have its ids', async (t) => {
  const hall = await openHall(t);
  const attemptId = await submit(t, hall, CALLER);
  await hall.run(...CHAIN);
  const ids = { requestId: 'request-7', traceId: TRACE };
  const commands = await hall.commands();
  const grading = commands.find(({ queue }) => queue === 'grading');
  const [request] = hall.lines().filter(({ msg }) => msg === 'request');
  t.match(request, { ...ids, attemptId, commandId: grading?._id, status: 202 });
  const settled = hall.lines().filter(({ msg }) => msg === 'command settled');
  t.equal(settled.length, commands.length);
  for (const { _id: commandId, queue } of commands) {
    const [line, ...more] = settled.filter((each) => each.commandId === commandId);
    t.match(line, { ...ids, queue, ending: 'done', attempt: 1, level: 30, waitMs: Number, runMs: Number });
    t.strictSame(more, []);
  }
});

t.test('each line about a retry has the ids of its request', async (t) => {
  const hall = await openHall(t);
  refuseFirstDeliveries(hall);
  await submit(t, hall, CALLER);
  await hall.run(...CHAIN);
  const retries = hall.lines().filter(({ msg }) => msg === 'command failed; retry scheduled');
  t.equal(retries.length, 2);
  for (const line of retries) {
    t.match(line, { queue: 'delivery:webhook', commandId: String, requestId: 'request-7', traceId: TRACE, attempt: 1 });
  }
});

t.test('a malformed traceparent is ignored, and the request id is followed without it', async (t) => {
  const hall = await openHall(t);
  await submit(t, hall, { 'x-request-id': 'request-8', traceparent: `00-${'0'.repeat(32)}-00f067aa0ba902b7-01` });
  await hall.run(...CHAIN);
  for (const { cause, queue } of await hall.commands()) t.strictSame(cause, { requestId: 'request-8' }, queue);
  for (const { headers } of hall.neighbours.calls) t.notOk('traceparent' in headers);
});

t.test('each notice of a large release has a trace of its own, linked to the release', async (t) => {
  const hall = await openHall(t);
  const spans = await recordSpans(t);
  const exam = { ...(await storeAttempt(hall.mongo, {}, PAPER)).exam, showResultMode: 'MANUAL' } as const;
  const many = MAX_IN_TRACE;
  for (let index = 0; index < many; index++) {
    await storeAttempt(hall.mongo, { examId: 'exam-9', exam, status: 'GRADED', answers: RIGHT, totalScore: 1 }, PAPER);
  }
  const reply = await callHttp(hall.attemptUrl, 'POST', '/v1/events/exam-results-released', {
    headers: { ...CALLER, 'x-internal-service': 'exam-service', 'x-internal-token': TOKEN.INTERNAL_SERVICE_TOKEN },
    body: {
      sourceService: 'exam-service',
      type: 'exam.results_released.v1',
      sourceEventId: 'release-1',
      examId: 'exam-9',
      releasedAt: new Date(0).toISOString(),
    },
  });
  t.ok(reply.status < 300, reply.text);
  await hall.run(resultsReleaseActor, gradeNoticesActor);

  const [release] = spans.named('process resultsrelease');
  t.equal(release?.spanContext().traceId, TRACE);
  const runs = [...spans.named('process gradenotices:student'), ...spans.named('process gradenotices:parent')];
  t.equal(runs.length, many * 2);
  const own = new Set(runs.map((span) => span.spanContext().traceId));
  t.equal(own.size, runs.length, 'a trace for each notice');
  t.notOk(own.has(TRACE));
  for (const run of runs) {
    const post = spans.all().find((span) => span.spanContext().spanId === run.parentSpanContext?.spanId);
    t.match(post?.links[0]?.context, { traceId: TRACE }, 'the post is linked to the release');
  }
  await checkOneRequest(t, hall, spans);
});

async function checkOneRequest(t: Test, hall: Hall, spans: RecordedSpans): Promise<void> {
  for (const { cause } of await hall.commands()) t.equal(cause?.requestId, 'request-7');
  const doors = spans.named('POST /v1/events/notification');
  t.ok(doors.length > 0);
  for (const { attributes } of doors) t.equal(attributes['examhall.request_id'], 'request-7');
}
