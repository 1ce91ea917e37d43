import { performance } from 'node:perf_hooks';
import { opsToken } from '#api/http/guards/tokens.ts';
import type { Route } from '#api/route.ts';
import type { Metrics } from '#infra/metrics/metrics.ts';
import { type CheckResult, checkWithin, shareRuns } from '#infra/process/health.ts';
import type { Secrets } from '#shared/kernel/secret.ts';
import type { Now } from '#shared/kernel/time.ts';
import { securityTxt } from '#shared/operations/security-txt.ts';
import { landingRoute, PROCESS } from './landing.ts';

export interface OperationsDeps {
  /** Names of the services that this process serves. */
  services: readonly string[];
  version: string;
  /** Returns the state of both stores; see `readiness`. */
  ready(): Promise<Readiness>;
  metrics: Metrics;
  opsToken: Secrets | undefined;
  opsReadToken?: Secrets | undefined;
  production: boolean;
  /** Addresses in `/.well-known/security.txt`; empty: not configured. */
  securityContacts: readonly string[];
  /** MongoDB's time. */
  now: Now;
  /** Returns the OpenAPI document. Called once, at the first request for it. */
  openApi(): object;
  /** Returns all mounted routes, including these. */
  mounted(): readonly Pick<Route, 'method' | 'path'>[];
  /** Returns the pages for a browser, which are no part of the API. */
  pages(): readonly Pick<Route, 'method' | 'path'>[];
}

const ALL_SERVICES = 'examhall';

/** Returns the routes for operators, platforms and gateway developers, which every process has. */
export function operationsRoutes(deps: OperationsDeps): Route[] {
  const { ready } = deps;
  const startedAt = performance.now();
  const service = deps.services.length === 1 ? (deps.services[0] ?? ALL_SERVICES) : ALL_SERVICES;
  let document: Buffer | undefined;

  return [
    landingRoute(deps),
    {
      method: 'GET',
      path: '/healthz',
      alsoHead: true,
      operation: 'getHealth',
      summary: 'Check that the process is alive; calls no other service',
      description:
        'Answers as long as the process does, without I/O. Use it as the liveness probe. HEAD answers alike, without a body.',
      tag: PROCESS,
      guards: [],
      replies: [{ status: 200, schema: 'common/health', description: 'Version and uptime of the live process' }],
      errors: [],
      async handle() {
        const uptimeSeconds = Math.floor((performance.now() - startedAt) / 1_000);
        return { status: 200, data: { status: 'ok', service, version: deps.version, uptimeSeconds } };
      },
    },
    {
      method: 'GET',
      path: '/readyz',
      alsoHead: true,
      operation: 'getReadiness',
      summary: 'Check that the process can serve requests; a 503 carries the same data',
      description:
        'States whether the process can do its work: 200 `ready`, 200 `degraded` while Redis is unavailable, 503 while MongoDB is unavailable or the process drains. Use it as the readiness probe. HEAD answers alike, without a body.',
      tag: PROCESS,
      guards: [],
      replies: [
        {
          status: 200,
          schema: 'common/readiness',
          description: 'State `ready`, or `degraded` while Redis is unavailable',
        },
      ],
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
      summary: 'List the services and routes of this process',
      description: 'Lists the services of this process, its version and its routes.',
      tag: PROCESS,
      guards: [],
      replies: [{ status: 200, schema: 'common/service-index', description: 'Services, version and routes' }],
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
      summary: 'Get the OpenAPI 3.1 document of this process',
      description:
        'Returns this document, without an envelope: the routes of this process with the schemas that validate them, and every status and code that they answer.',
      tag: PROCESS,
      guards: [],
      replies: [{ status: 200, schema: 'common/openapi-document', description: 'Document without envelope' }],
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
      summary: 'Get Prometheus metrics',
      description:
        'Returns the metrics of the process for Prometheus, without an envelope. In production it requires a token.',
      tag: PROCESS,
      guards: [opsToken(deps)],
      replies: [{ status: 200, schema: 'common/metrics-text', description: 'Text exposition, without envelope' }],
      errors: [],
      async handle() {
        return bare(deps.metrics.contentType, Buffer.from(await deps.metrics.render()));
      },
    },
    {
      method: 'GET',
      path: '/.well-known/security.txt',
      operation: 'getSecurityTxt',
      summary: 'Get the address for reports of vulnerabilities (RFC 9116)',
      description:
        'Returns how a person who has found a vulnerability of this installation reaches its operator, without an envelope. In production it is 404 until the operator has configured an address.',
      tag: PROCESS,
      guards: [],
      replies: [{ status: 200, schema: 'common/security-txt', description: 'Fields of RFC 9116, without envelope' }],
      errors: ['ROUTE_NOT_FOUND'],
      async handle() {
        if (deps.securityContacts.length === 0) return { rejected: 'ROUTE_NOT_FOUND' };
        const text = securityTxt(deps.securityContacts, deps.now());
        return bare('text/plain; charset=utf-8', Buffer.from(text));
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

/** Each check resolves if its store answers and rejects if it does not. The caller bounds its time. */
export interface Checks {
  mongodb(): Promise<void>;
  redis(): Promise<void>;
}

export interface Readiness {
  status: 'ready' | 'degraded' | 'unready';
  checks: { mongodb: CheckResult; redis: CheckResult };
}

interface ReadinessDeps {
  checks: Checks;
  draining: AbortSignal;
  /** Time limit of each check; default 500 ms. */
  boundMs?: number;
  /** Time for which a result is reused without a new check; default 250 ms. */
  cacheMs?: number;
}

/**
 * Returns a function that checks both stores within `boundMs`. Concurrent probes share one check and its result is reused for
 * `cacheMs`, so that many probes cause little load. Losing Redis, a mere doorbell, only degrades the process.
 */
export function readiness({ checks, draining, boundMs = 500, cacheMs = 250 }: ReadinessDeps): () => Promise<Readiness> {
  const results = shareRuns(cacheMs, async () => {
    const [mongodb, redis] = await Promise.all([
      checkWithin(checks.mongodb, boundMs),
      checkWithin(checks.redis, boundMs),
    ]);
    return { mongodb, redis };
  });

  return async () => {
    const found = await results();
    if (draining.aborted || found.mongodb.status === 'down') return { status: 'unready', checks: found };
    return { status: found.redis.status === 'down' ? 'degraded' : 'ready', checks: found };
  };
}
