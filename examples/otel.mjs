// Registers an OpenTelemetry SDK in each process of examhall: NODE_OPTIONS="--import ./otel.mjs".
// Spans go to OTEL_EXPORTER_OTLP_ENDPOINT, or to standard output without it.
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ConsoleSpanExporter,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';

/** Returns the exporter of the collector, whose package is needed only then. */
async function openExporter() {
  if (process.env.OTEL_EXPORTER_OTLP_ENDPOINT === undefined) return new ConsoleSpanExporter();
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http');
  return new OTLPTraceExporter();
}

// The caller decides about its own traces. Of all others, this share is recorded.
const share = Number(process.env.OTEL_TRACES_SAMPLER_ARG ?? 0.1);
// The first argument of a worker names its actor.
const name = process.env.OTEL_SERVICE_NAME ?? `examhall-${process.argv[2] ?? 'web'}`;
const provider = new TracerProvider({
  resource: defaultResource().merge(resourceFromAttributes({ 'service.name': name })),
  sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(share) }),
  spanProcessors: [new BatchSpanProcessor({ exporter: await openExporter() })],
});
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(provider);

// A process ends without waiting for spans. Those of its last requests may be lost.
process.once('SIGTERM', () => void provider.forceFlush());
