import { context, type SpanKind, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { openTracing } from '#infra/trace/spans.ts';

/** The spans that have ended since an SDK was registered in this process. */
export interface RecordedSpans {
  all(): ReadableSpan[];
  /** Returns the spans of this name, in the order of their start. */
  named(name: string): ReadableSpan[];
  /** Returns the name and kind of a span and of its ancestors, nearest first. A parent outside the process ends the list. */
  line(span: ReadableSpan): [name: string, kind: SpanKind][];
  clear(): void;
}

/** Registers an SDK in this process, as an operator does before its start, until the test ends. */
export async function recordSpans(t: { teardown(work: () => unknown): void }): Promise<RecordedSpans> {
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
  function line(span: ReadableSpan): [name: string, kind: SpanKind][] {
    const parent = all().find((other) => other.spanContext().spanId === span.parentSpanContext?.spanId);
    return [[span.name, span.kind], ...(parent === undefined ? [] : line(parent))];
  }
  return {
    all,
    named: (name) =>
      all()
        .filter((span) => span.name === name)
        .sort((a, b) => startOf(a) - startOf(b)),
    line,
    clear: () => exporter.reset(),
  };
}
