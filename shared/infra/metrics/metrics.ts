import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client';

type Labels = Record<string, string>;

interface CounterMetric {
  add(labels?: Labels, by?: number): void;
}

interface GaugeMetric {
  set(value: number, labels?: Labels): void;
}

interface HistogramMetric {
  observe(value: number, labels?: Labels): void;
}

/**
 * The metrics of one process. Asking twice for a name gives the same metric. Label values must be few and known:
 * route templates, queue names, codes; never ids. Durations are in seconds, as Prometheus wants them.
 */
export interface Metrics {
  counter(name: string, help: string, labels?: readonly string[]): CounterMetric;
  /**
   * `collect` is asked at each scrape. When it throws, the gauge has no value (an old one would lull an alarm to sleep)
   * and `examhall_scrape_failures_total{metric}` grows, to be seen at the latest by the next scrape.
   */
  gauge(name: string, help: string, labels?: readonly string[], collect?: GaugeCollect): GaugeMetric;
  histogram(name: string, help: string, labels: readonly string[], buckets: readonly number[]): HistogramMetric;
  /** Text exposition, version 0.0.4. */
  render(): Promise<string>;
  contentType: string;
}

type GaugeCollect = (gauge: GaugeMetric) => void | Promise<void>;

/** `process` adds CPU, memory, handles and event-loop lag of this process. `labels` stand on every metric. */
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

  /** Names are unique per registry; two kinds under one name are a bug and throw there. */
  function once<T>(kind: string, name: string, make: () => T): T {
    const key = `${kind} ${name}`;
    const metric = (known.get(key) as T | undefined) ?? make();
    known.set(key, metric);
    return metric;
  }

  /** One gauge whose source is down must not take the whole scrape with it. */
  async function harmless(name: string, collect: () => void | Promise<void>, forget: () => void): Promise<void> {
    try {
      await collect();
    } catch {
      forget();
      failures.inc({ metric: name });
    }
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
        // Reset, a gauge without labels would be zero, which is a value as well.
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
    histogram: (name, help, labels, buckets) =>
      once('histogram', name, () => {
        const histogram = new Histogram<string>({ name, help, labelNames: labels, buckets: [...buckets], registers });
        return { observe: (value, values = {}) => histogram.observe(values, value) };
      }),
    render: () => registry.metrics(),
    contentType: registry.contentType,
  };
}

const HTTP_BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20];

/** Counts one answered request. `route` is the path as mounted. `seconds` from its head to its reply. */
export type ObserveHttp = (method: string, route: string, status: number, seconds: number) => void;

export function httpMetrics(metrics: Metrics): ObserveHttp {
  const histogram = metrics.histogram(
    'http_request_duration_seconds',
    'Time from the head of a request to its reply',
    ['method', 'route', 'status'],
    HTTP_BUCKETS_S,
  );
  return (method, route, status, seconds) => histogram.observe(seconds, { method, route, status: String(status) });
}
