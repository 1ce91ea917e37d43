import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { trace } from '@opentelemetry/api';
import t from 'tap';
import { recordSpans } from '#testing/recorded-spans.ts';
import { currentCause, currentScope, inScope, noteAwaited, outsideScopes, scopeFields } from './scope.ts';
import { causeOfPost, inCall, inSpan, isTracing, MAX_IN_TRACE, openTracing } from './spans.ts';

const CAUSE = {
  requestId: 'r-1',
  traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  tracestate: 'rojo=1',
};
const WORK = { kind: 'CONSUMER', name: 'work', attributes: {} } as const;
const COMMAND = { _id: 'c-1', queue: 'grading' } as const;

t.test('without an SDK work runs without a span, and a post has the cause of its scope', async (t) => {
  await openTracing();
  t.equal(isTracing(), false);
  await inScope({ cause: CAUSE }, async () => {
    await inSpan(WORK, async (span) => t.equal(span, null));
    t.equal(causeOfPost(COMMAND, 1), CAUSE, 'the same object: nothing is allocated');
    t.equal(trace.getActiveSpan(), undefined);
  });
  t.equal(causeOfPost(COMMAND, 1), undefined, 'no request, no cause');
});

t.test('a scope holds for everything that its work starts, and for nothing else', async (t) => {
  const scope = { cause: CAUSE, command: COMMAND };
  await inScope(scope, async () => {
    await Promise.resolve();
    t.equal(currentCause(), CAUSE);
    noteAwaited('c-2');
    t.equal(currentScope()?.awaited, 'c-2');
    t.match(scopeFields(), { queue: 'grading', commandId: 'c-1', requestId: 'r-1' });
    outsideScopes(() => t.strictSame(scopeFields(), {}));
  });
  t.equal(currentScope(), undefined);
  noteAwaited('c-3');
});

t.test('a call has a span and continues it in its headers', async (t) => {
  const spans = await recordSpans(t);
  const sent = await inScope({ cause: CAUSE }, () =>
    inCall({ method: 'GET', url: 'https://profile.example/v1/students/student-1/parents' }, async (call) => {
      call.answered(503);
      return call.headers();
    }),
  );
  const [span] = spans.all();
  t.strictSame(span?.attributes, {
    'http.request.method': 'GET',
    'server.address': 'profile.example',
    'server.port': 443,
    'http.response.status_code': 503,
    'error.type': '503',
  });
  const { traceId, spanId } = span?.spanContext() ?? {};
  t.strictSame(sent, { 'x-request-id': 'r-1', traceparent: `00-${traceId}-${spanId}-01`, tracestate: 'rojo=1' });
  t.match(span?.parentSpanContext, { spanId: '00f067aa0ba902b7', isRemote: true });
});

t.test('a span of work that throws is failed, and quotes no message', async (t) => {
  const spans = await recordSpans(t);
  await t.rejects(
    inSpan(WORK, async () => {
      throw new TypeError('the answer of student-1');
    }),
    { message: 'the answer of student-1' },
  );
  const [span] = spans.all();
  t.match(span, { status: { code: 2 }, attributes: { 'error.type': 'TypeError' } });
  t.notMatch(JSON.stringify(span?.events), /student-1/);
});

t.test('a post among few continues the trace, one among many begins its own and links to it', async (t) => {
  const spans = await recordSpans(t);
  await inScope({ cause: CAUSE }, () =>
    inSpan(WORK, async () => {
      const few = causeOfPost(COMMAND, MAX_IN_TRACE);
      const many = causeOfPost(COMMAND, MAX_IN_TRACE + 1);
      t.match(few, { requestId: 'r-1', traceparent: /^00-4bf92f3577b34da6a3ce929d0e0e4736-/ });
      t.equal(many?.requestId, 'r-1');
      t.notMatch(many?.traceparent, /4bf92f3577b34da6a3ce929d0e0e4736/);
    }),
  );
  const [work] = spans.named('work');
  const [child, linked] = spans.named('create grading');
  t.match(child?.parentSpanContext, { spanId: work?.spanContext().spanId, isRemote: undefined });
  t.equal(linked?.parentSpanContext, undefined);
  t.equal(linked?.links[0]?.context.spanId, work?.spanContext().spanId);
  t.notOk(child?.links.length);
});

t.test('the example registers an SDK before the process starts', async (t) => {
  const root = path.resolve(import.meta.dirname, '../../..');
  const program = `
    import { inSpan, openTracing } from '#infra/trace/spans.ts';
    await openTracing();
    await inSpan({ kind: 'SERVER', name: 'a request', attributes: {} }, async () => undefined);
    process.emit('SIGTERM');
  `;
  const args = ['--import', './examples/otel.mjs', '--input-type=module', '--eval', program];
  const env = { PATH: process.env.PATH, OTEL_TRACES_SAMPLER_ARG: '1', OTEL_SERVICE_NAME: 'examhall-test' };
  const printed = execFileSync(process.execPath, args, { cwd: root, env, encoding: 'utf8' });
  t.match(printed, /'service.name': 'examhall-test'/);
  t.match(printed, /name: 'a request'/);
});
