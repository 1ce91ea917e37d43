import { performance } from 'node:perf_hooks';
import { opsToken } from '#api/http/guards/tokens.ts';
import type { Route } from '#api/route.ts';
import type { Metrics } from '#infra/metrics/metrics.ts';
import { bounded } from '#infra/process/background.ts';

export interface OperationsDeps {
  /** Names of the services that this process serves. */
  services: readonly string[];
  version: string;
  checks: Checks;
  draining: AbortSignal;
  metrics: Metrics;
  opsToken: string | undefined;
  production: boolean;
  /** Asked once, at the first call for it. */
  openApi(): object;
  /** All mounted routes, these included. */
  mounted(): readonly Pick<Route, 'method' | 'path'>[];
}

const ALL_SERVICES = 'examhall';

/** What operators, platforms and gateway developers ask of a process, whatever services it serves. */
export function operationsRoutes(deps: OperationsDeps): Route[] {
  const ready = readiness(deps);
  const startedAt = performance.now();
  const service = deps.services.length === 1 ? (deps.services[0] ?? ALL_SERVICES) : ALL_SERVICES;
  let document: Buffer | undefined;

  return [
    {
      method: 'GET',
      path: '/healthz',
      operation: 'getHealth',
      summary: 'Is the process alive? Asks no other service',
      guards: [],
      replies: [{ status: 200, schema: 'common/health', description: 'The process answers' }],
      errors: [],
      async handle() {
        const uptimeSeconds = Math.floor((performance.now() - startedAt) / 1_000);
        return { status: 200, data: { status: 'ok', service, version: deps.version, uptimeSeconds } };
      },
    },
    {
      method: 'GET',
      path: '/readyz',
      operation: 'getReadiness',
      summary: 'Can the process do its work? 503 carries the same data',
      guards: [],
      replies: [{ status: 200, schema: 'common/readiness', description: 'Ready, or degraded while Redis is away' }],
      errors: ['UNAVAILABLE'],
      failureData: { UNAVAILABLE: 'common/readiness' },
      async handle() {
        const data = await ready();
        if (data.status !== 'unready') return { status: 200, data };
        return { rejected: 'UNAVAILABLE', message: 'The service is not ready', data, retryAfter: 1 };
      },
    },
    {
      method: 'GET',
      path: '/v1',
      operation: 'getIndex',
      summary: 'Services and routes of this process',
      guards: [],
      replies: [{ status: 200, schema: 'common/service-index', description: 'The index' }],
      errors: [],
      async handle() {
        const routes = deps.mounted().map(({ method, path }) => ({ method, path: path.replace(/:(\w+)/g, '{$1}') }));
        return { status: 200, data: { services: [...deps.services], version: deps.version, routes } };
      },
    },
    {
      method: 'GET',
      path: '/openapi.json',
      operation: 'getOpenApi',
      summary: 'OpenAPI 3.1 of every route of this process',
      guards: [],
      replies: [{ status: 200, schema: 'common/openapi-document', description: 'The document, without envelope' }],
      errors: [],
      async handle() {
        document ??= Buffer.from(JSON.stringify(deps.openApi()));
        return bare('application/json; charset=utf-8', document);
      },
    },
    {
      method: 'GET',
      path: '/metrics',
      operation: 'getMetrics',
      summary: 'Prometheus metrics',
      guards: [opsToken(deps)],
      replies: [{ status: 200, schema: 'common/metrics-text', description: 'Text exposition, without envelope' }],
      errors: [],
      async handle() {
        return bare(deps.metrics.contentType, Buffer.from(await deps.metrics.render()));
      },
    },
  ];
}

function bare(type: string, body: Buffer): ReturnType<Route['handle']> {
  return Promise.resolve({
    kind: 'raw',
    async raw(response) {
      response.writeHead(200, { 'Content-Type': type, 'Content-Length': body.length, 'Cache-Control': 'no-store' });
      response.end(body);
    },
  });
}

/** Resolves when the dependency answered, rejects when it did not. Need not bound itself. */
export interface Checks {
  mongodb(): Promise<void>;
  redis(): Promise<void>;
}

interface CheckResult {
  status: 'up' | 'down';
  /** Null when there was no answer. */
  latencyMs: number | null;
}

interface Readiness {
  status: 'ready' | 'degraded' | 'unready';
  checks: { mongodb: CheckResult; redis: CheckResult };
}

interface ReadinessDeps {
  checks: Checks;
  draining: AbortSignal;
  /** Default 500 ms. */
  boundMs?: number;
  /** How long a result is told again without asking; default 250 ms. */
  cacheMs?: number;
}

/**
 * Asks the stores, each within its bound. Results are shared for a moment and probes that come together wait for one
 * question: a platform with many probes must not become load. Redis is a doorbell, so its loss degrades only.
 */
export function readiness({ checks, draining, boundMs = 500, cacheMs = 250 }: ReadinessDeps): () => Promise<Readiness> {
  let asked: Promise<Readiness['checks']> | undefined;
  let freshUntil = 0;

  function results(): Promise<Readiness['checks']> {
    if (asked !== undefined && performance.now() < freshUntil) return asked;
    // Until the answers are there, they count as fresh: whoever asks meanwhile waits for them.
    freshUntil = Number.POSITIVE_INFINITY;
    asked = Promise.all([result(checks.mongodb, boundMs), result(checks.redis, boundMs)]).then(([mongodb, redis]) => {
      freshUntil = performance.now() + cacheMs;
      return { mongodb, redis };
    });
    return asked;
  }

  return async () => {
    const found = await results();
    if (draining.aborted || found.mongodb.status === 'down') return { status: 'unready', checks: found };
    return { status: found.redis.status === 'down' ? 'degraded' : 'ready', checks: found };
  };
}

async function result(check: () => Promise<void>, boundMs: number): Promise<CheckResult> {
  const started = performance.now();
  try {
    await bounded(check(), boundMs, () => new Error('no answer in time'));
    return { status: 'up', latencyMs: Math.round((performance.now() - started) * 100) / 100 };
  } catch {
    return { status: 'down', latencyMs: null };
  }
}
