import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client';

type Labels = Record<string, string>;

interface CounterMetric {
  add(labels?: Labels, by?: number): void;
}

interface GaugeMetric {
  set(value: number, labels?: Labels): void;
}

interface HistogramMetric {
  /** Returns the function that counts values (seconds, bytes) in a series. A new series begins at 0. */
  series(labels: Labels): (value: number) => void;
}

/**
 * The metrics of one process. The same name always returns the same metric. Label values must be few and known: route templates,
 * queue names, codes; never ids. Durations are in seconds, as Prometheus requires.
 */
export interface Metrics {
  counter(name: string, help: string, labels?: readonly string[]): CounterMetric;
  /**
   * Returns a gauge. `collect` runs at each scrape. If it throws, the gauge has no value, because an old one could hide an alarm, and
   * `examhall_scrape_failures_total{metric}` grows. This scrape or the next one shows the new count.
   */
  gauge(name: string, help: string, labels?: readonly string[], collect?: GaugeCollect): GaugeMetric;
  histogram(name: string, help: string, buckets: readonly number[]): HistogramMetric;
  /** Returns the text exposition format, version 0.0.4. */
  render(): Promise<string>;
  contentType: string;
}

type GaugeCollect = (gauge: GaugeMetric) => void | Promise<void>;

/** Opens the metrics of a process. `process` adds its CPU, memory, handles and event-loop lag. Every metric gets `labels`. */
export function openMetrics(options: { process: boolean; labels?: Labels }): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const known = new Map<string, unknown>();
  if (options.labels !== undefined) registry.setDefaultLabels(options.labels);
  if (options.process) collectDefaultMetrics({ register: registry });
  const failures = new Counter<string>({
    name: 'examhall_scrape_failures_total',
    help: 'Gauges that could not be read at a scrape',
    labelNames: ['metric'],
    registers,
  });

  /** Returns the metric of this name, and makes it at the first call. Throws for one name with two kinds, which is a bug. */
  function once<T>(kind: string, name: string, make: () => T): T {
    const key = `${kind} ${name}`;
    const metric = (known.get(key) as T | undefined) ?? make();
    known.set(key, metric);
    return metric;
  }

  /** Runs `collect`. If it fails, the gauge loses its value and the failure is counted, but the scrape continues. */
  async function harmless(name: string, collect: () => void | Promise<void>, forget: () => void): Promise<void> {
    try {
      await collect();
    } catch {
      forget();
      failures.inc({ metric: name });
    }
  }

  /** Returns a histogram. Its first series names the labels of all. */
  function openHistogram(name: string, help: string, bounds: readonly number[]): HistogramMetric {
    const begun = new Set<string>();
    let histogram: Histogram<string> | undefined;
    let labelNames: string[] = [];
    return {
      series(labels) {
        if (histogram === undefined) {
          labelNames = Object.keys(labels);
          histogram = new Histogram({ name, help, buckets: [...bounds], labelNames, registers });
        }
        const opened = histogram;
        const key = labelNames.map((label) => labels[label]).join('\n');
        // Only once: this would set a series with values to 0.
        if (!begun.has(key)) opened.zero(labels);
        begun.add(key);
        return (value) => opened.observe(labels, value);
      },
    };
  }

  return {
    counter: (name, help, labels = []) =>
      once('counter', name, () => {
        const counter = new Counter<string>({ name, help, labelNames: labels, registers });
        return { add: (values = {}, by = 1) => counter.inc(values, by) };
      }),
    gauge: (name, help, labels = [], collect) =>
      once('gauge', name, () => {
        const metric: GaugeMetric = { set: (value, values = {}) => gauge.set(values, value) };
        // Prometheus finds no increase in a counter that only appears with its first failure.
        if (collect !== undefined) failures.inc({ metric: name }, 0);
        // `reset` would set a gauge without labels to zero, which is a value. Remove it instead.
        const forget = () => (labels.length === 0 ? gauge.remove({}) : gauge.reset());
        const gauge: Gauge<string> = new Gauge<string>({
          name,
          help,
          labelNames: labels,
          registers,
          ...(collect === undefined ? {} : { collect: () => harmless(name, () => collect(metric), forget) }),
        });
        return metric;
      }),
    histogram: (name, help, buckets) => once('histogram', name, () => openHistogram(name, help, buckets)),
    render: () => registry.metrics(),
    contentType: registry.contentType,
  };
}

/** The histogram of requests. Its bounds contain those of the objectives of service: 0.25 s and 2 s. */
export const HTTP_SECONDS = [
  'http_request_duration_seconds',
  'Time from the head of a request to its reply',
  [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 2.5, 5, 10, 20],
] as const;

/** Records one answered request. `route` is its template; `seconds` is the time from its head to its reply. */
export type ObserveHttp = (method: string, route: string, status: number, seconds: number) => void;

/** Returns the recorder of requests, which fills the histogram `http_request_duration_seconds`. */
export function httpMetrics(metrics: Metrics): ObserveHttp {
  const histogram = metrics.histogram(...HTTP_SECONDS);
  return (method, route, status, seconds) => histogram.series({ method, route, status: String(status) })(seconds);
}

/** Returns the counter of connections that were closed without a reply, by reason. */
export function connectionMetrics(metrics: Metrics): (reason: string) => void {
  const counter = metrics.counter(
    'examhall_connections_dropped_total',
    'Connections closed without a reply: no room, no request sent, or the share of their network used up',
    ['reason'],
  );
  // Prometheus finds no increase in a counter that only appears with its first drop.
  for (const reason of ['full', 'silent', 'address']) counter.add({ reason }, 0);
  return (reason) => counter.add({ reason });
}

/** Returns the counter of wrong tokens, by the kind of token and by outcome. */
export function tokenMetrics(
  metrics: Metrics,
  { kinds, outcomes }: { kinds: readonly string[]; outcomes: readonly string[] },
): (kind: string, outcome: string) => void {
  const counter = metrics.counter(
    'examhall_wrong_tokens_total',
    'Requests with a wrong token of an operator, the gateway or a service, and wrong tokens in the console',
    ['kind', 'outcome'],
  );
  for (const kind of kinds) for (const outcome of outcomes) counter.add({ kind, outcome }, 0);
  return (kind, outcome) => counter.add({ kind, outcome });
}
