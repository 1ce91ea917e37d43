import t, { type Test } from 'tap';
import { MAX_IN_TRACE } from '#infra/trace/spans.ts';
import { callHttp } from '#testing/clients/http-call.ts';
import { CALLER, type Hall, openHall, PAPER, RIGHT, TOKEN, TRACE } from '#testing/doors/traced-hall.ts';
import { type RecordedSpans, recordSpans } from '#testing/recorded-spans.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { gradeNoticesActor } from './grade-notices/actor.ts';
import { resultsReleaseActor } from './results-release/actor.ts';

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
