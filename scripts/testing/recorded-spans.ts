import { context, type SpanKind, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { openTracing } from '#infra/trace/spans.ts';

export type RecordedSpans = Awaited<ReturnType<typeof recordSpans>>;

/** Registers an SDK in this process, as an operator does before its start, until the test ends. Returns the spans that have ended since. */
export async function recordSpans(t: { teardown(work: () => unknown): void }) {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  await openTracing();
  t.teardown(async () => {
    trace.disable();
    context.disable();
    await openTracing();
  });
  const all = () => exporter.getFinishedSpans();
  const startOf = ({ startTime: [seconds, nanos] }: ReadableSpan) => seconds * 1e9 + nanos;
  /** Returns the name and kind of a span and of its ancestors, nearest first. A parent outside the process ends the list. */
  function line(span: ReadableSpan): [name: string, kind: SpanKind][] {
    const parent = all().find((other) => other.spanContext().spanId === span.parentSpanContext?.spanId);
    return [[span.name, span.kind], ...(parent === undefined ? [] : line(parent))];
  }
  return {
    all,
    named: (name: string) =>
      all()
        .filter((span) => span.name === name)
        .sort((a, b) => startOf(a) - startOf(b)),
    line,
    clear: () => exporter.reset(),
  };
}
