import { mountAttempt } from '#api/attempt/mount.ts';
import { mountAuth } from '#api/auth/mount.ts';
import { mountClassifier } from '#api/classifier/mount.ts';
import { behindGateway, gatewayToken } from '#api/http/guards/tokens.ts';
import { openStreams } from '#api/http/live-stream.ts';
import { mountNotification } from '#api/notification/mount.ts';
import { queueMetrics } from '#api/operations/queue-metrics.ts';
import { operationsRoutes } from '#api/operations/routes.ts';
import { type Config, configOrExit, secretsOf, VERSION } from '#infra/config/config.ts';
import { type Log, openLog } from '#infra/log/log.ts';
import { connectionMetrics, httpMetrics, openMetrics } from '#infra/metrics/metrics.ts';
import { openMongo, pingMongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { FanOutLost } from '#infra/mongo/notification/stage-fan-out.ts';
import { openServerClock } from '#infra/mongo/server-clock.ts';
import { checkUsable, untilUsable } from '#infra/mongo/until-usable.ts';
import { BACKGROUND_LIMITS, LAST_BACKGROUND_MS, openBackground } from '#infra/process/background.ts';
import { drainOnSignal, OWN_PROCESS } from '#infra/process/drain.ts';
import { endLoadingWhenIdle } from '#infra/process/loading.ts';
import { permittedConnections } from '#infra/process/open-files.ts';
import { openChangeFeed } from '#infra/redis/change-feed.ts';
import { redisProbe } from '#infra/redis/connection.ts';
import { openDoorbells } from '#infra/redis/doorbell.ts';
import { openReplyWaiters } from '#infra/redis/replies.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import { openApi } from './openapi.ts';
import type { Route } from './route.ts';
import { openServer } from './server.ts';
import { type Mount, onlyWhenUsable, usableOnce } from './service.ts';

/** Services that a `web` process can open; the environment variable SERVICES selects some. All share one port. */
const SERVICES: Readonly<Record<string, Mount>> = {
  attempt: mountAttempt,
  auth: mountAuth,
  classifier: mountClassifier,
  notification: mountNotification,
};
const PING_MS = 500;

/** Returns true for an error that is not the request's fault and will pass: the caller gets 503 and may retry. */
const isPassing = (error: unknown) => isOutage(error) || error instanceof FanOutLost;

/** Opens a front door, which serves until SIGTERM or SIGINT. Resolves with its log once it accepts connections. */
export async function openFrontDoor(config: Config, host = OWN_PROCESS): Promise<Log> {
  const { log, access, flush } = openLog({
    level: config.logLevel,
    name: 'web',
    secrets: secretsOf(config),
    ...(host.logTo === undefined ? {} : { destination: host.logTo }),
  });
  for (const warning of [...config.warnings, ...config.doorWarnings]) log.warn({}, warning);
  const metrics = openMetrics({ process: true });
  const schemas = loadSchemas();
  const draining = new AbortController();
  const mongo = openMongo({ ...config.mongodb, appName: 'examhall-web' });
  const redis = { redisUrl: config.redis.url, log };
  const [clock, doorbells, replies, probe] = [
    openServerClock(mongo),
    openDoorbells(redis),
    openReplyWaiters(redis),
    redisProbe(redis),
  ];
  const alarms = metrics.counter('examhall_alarms_total', "Events that need an operator's attention", ['name']);
  // Prometheus finds no increase in a counter that only appears with its first alarm.
  for (const name of ['background_dropped', 'audit_failed']) alarms.add({ name }, 0);
  const background = openBackground({
    ...BACKGROUND_LIMITS,
    dropped: (count) => alarms.add({ name: 'background_dropped' }, count),
    failed(err) {
      alarms.add({ name: 'audit_failed' });
      log.warn({ err }, 'sending an event to the audit service failed; event dropped');
    },
  });

  const services = Object.keys(SERVICES).filter((name) => (config.services as ReadonlySet<string>).has(name));
  if (services.length === 0)
    log.warn({ wanted: [...config.services] }, 'SERVICES names no service that this process can open');
  const closers: (() => Promise<unknown>)[] = [];
  const accountEnds = openChangeFeed({ ...redis, of: 'accounts' });
  closers.push(accountEnds.close);
  const context = {
    config,
    log,
    metrics,
    mongo,
    now: clock.now,
    redis,
    doorbells,
    replies,
    background,
    streams: openStreams(draining.signal, accountEnds),
    accountEnds,
    atEnd: (close: () => Promise<unknown>) => void closers.push(close),
  };

  queueMetrics(metrics, mongo, clock.now);
  // Until the database is usable the process listens and reports unready.
  const usable = usableOnce(untilUsable({ check: () => checkUsable(mongo, clock), log, stop: draining.signal }));
  const routes: Route[] = [
    ...operationsRoutes({
      services,
      version: VERSION,
      draining: draining.signal,
      metrics,
      production: config.production,
      opsToken: config.opsToken,
      checks: {
        mongodb: async () => {
          if (!usable()) throw new Error('the schema is not checked yet');
          await pingMongo(mongo, PING_MS);
        },
        redis: probe.ping,
      },
      openApi: () => openApi({ routes, schemas, version: VERSION, title: 'examhall' }),
      mounted: () => routes,
    }),
    ...behindGateway(
      onlyWhenUsable(
        services.flatMap((name) => SERVICES[name]?.(context) ?? []),
        usable,
      ),
      gatewayToken(config),
    ),
  ];

  const door = openServer({
    routes,
    schemas,
    log,
    access,
    draining: draining.signal,
    limits: {
      ...config.limits,
      maxConnections: permittedConnections(config.limits.maxConnections, (fields, message) =>
        log.info(fields, message),
      ),
    },
    trustedProxies: config.auth.trustedProxies,
    dropped: connectionMetrics(metrics),
    isOutage: isPassing,
    observe: httpMetrics(metrics),
  });
  drainOnSignal({
    signals: host.signals,
    exit: host.exit,
    log,
    draining,
    close: door.close,
    graceMs: config.shutdown.drainGraceMs,
    timeoutMs: config.shutdown.timeoutMs,
    async after() {
      clock.stop();
      await background.end(LAST_BACKGROUND_MS);
      // Run the closers before closing the stores, because some still write.
      await Promise.allSettled(closers.map((close) => close()));
      await Promise.allSettled([doorbells, replies, probe, mongo].map((store) => store.close()));
      flush();
    },
  });
  const port = await door.listen(config.port, config.host);
  log.info({ host: config.host, port, services, version: VERSION }, 'front door is open');
  return log;
}

if (import.meta.main) endLoadingWhenIdle(await openFrontDoor(configOrExit(process.env)));
