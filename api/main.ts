import { openAttemptDeps } from '#api/attempt/mount.ts';
import { attemptRoutes } from '#api/attempt/routes.ts';
import { mountAuth } from '#api/auth/mount.ts';
import { mountClassifier } from '#api/classifier/mount.ts';
import { mountConsole } from '#api/console/mount.ts';
import { openReadDeps } from '#api/exam-room/read-deps.ts';
import { examReadRoutes } from '#api/exam-room/read-routes.ts';
import { EXAM_ROOM, examRoomRoutes } from '#api/exam-room/routes.ts';
import { behindGateway, gatewayToken, provenCallers } from '#api/http/guards/tokens.ts';
import { openStreams } from '#api/http/live-stream.ts';
import { openWrongTokens, TOKEN_KINDS, TOKEN_OUTCOMES, type WrongTokens } from '#api/http/wrong-tokens.ts';
import { mountNotification } from '#api/notification/mount.ts';
import { clusterRoutes } from '#api/operations/cluster.ts';
import { deadLetterRoutes } from '#api/operations/dead-letters.ts';
import { examRoutes, openAttemptReader, openBoardReader, readAttemptsFor } from '#api/operations/exams.ts';
import { operationsRoutes, readiness } from '#api/operations/routes.ts';
import { redisAnswers, traceFor, traceRoutes } from '#api/operations/trace.ts';
import { referenceRoutes } from '#api/reference/mount.ts';
import { type Config, configOrExit, secretsOf, VERSION } from '#infra/config/config.ts';
import { type Log, openLog } from '#infra/log/log.ts';
import { connectionMetrics, httpMetrics, openMetrics, tokenMetrics } from '#infra/metrics/metrics.ts';
import { buildMetrics, dependencyMetrics, mongoMetrics, ringMetrics } from '#infra/metrics/process-metrics.ts';
import { openLogHashes } from '#infra/mongo/cluster-key.ts';
import { openMongo, pingMongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { FanOutLost } from '#infra/mongo/notification/stage-fan-out.ts';
import { openClusterReader } from '#infra/mongo/operations/cluster.ts';
import { openExamReader } from '#infra/mongo/operations/exam.ts';
import { openServerClock } from '#infra/mongo/server-clock.ts';
import { checkUsable, untilUsable } from '#infra/mongo/until-usable.ts';
import { openKeyedHash } from '#infra/net/keyed-hash.ts';
import { drainOnSignal, OWN_PROCESS } from '#infra/process/drain.ts';
import { measureEventLoop } from '#infra/process/event-loop.ts';
import { endLoadingWhenIdle } from '#infra/process/loading.ts';
import { permittedConnections } from '#infra/process/open-files.ts';
import { openChangeFeed } from '#infra/redis/change-feed.ts';
import { redisProbe } from '#infra/redis/connection.ts';
import { openDoorbells } from '#infra/redis/doorbell.ts';
import { openReplyWaiters } from '#infra/redis/replies.ts';
import { loadSchemas, type Schemas } from '#infra/schema/validator.ts';
import { openTracing } from '#infra/trace/spans.ts';
import { openApi } from './openapi.ts';
import { readExamples } from './openapi-examples.ts';
import { auditRoutes } from './operations/audit.ts';
import { startSampling } from './operations/cluster.ts';
import { beginObjectives, doorMetrics, queueMetrics, storesOf } from './operations/metrics.ts';
import { subscriptionRoutes } from './operations/subscriptions.ts';
import type { Route } from './route.ts';
import { openServer } from './server.ts';
import { type DoorContext, type Mount, onlyWhenUsable, usableOnce } from './service.ts';

/** Services that a `web` process can open; the environment variable SERVICES selects some. All share one port. */
const SERVICES: Readonly<Record<string, Mount>> = {
  attempt(context) {
    const deps = openAttemptDeps(context);
    const rooms = [...examRoomRoutes(deps), ...examReadRoutes(openReadDeps(context, deps), EXAM_ROOM)];
    return [...attemptRoutes(deps), ...rooms];
  },
  auth: mountAuth,
  classifier: mountClassifier,
  notification: mountNotification,
};
const PING_MS = 500;

/** Returns true for an error that is not the request's fault and will pass: the caller gets 503 and may retry. */
const isPassing = (error: unknown) => isOutage(error) || error instanceof FanOutLost;

/** Opens a front door, which serves until SIGTERM or SIGINT. Resolves with its log once it accepts connections. */
export async function openFrontDoor(given: Config, host = OWN_PROCESS): Promise<Log> {
  const { log, access, flush } = openLog({
    level: given.logLevel,
    name: 'web',
    secrets: secretsOf(given),
    ...(host.logTo === undefined ? {} : { destination: host.logTo }),
  });
  for (const warning of given.warnings) log.warn({}, warning);
  await openTracing();
  const metrics = openMetrics({ process: true });
  const schemas = loadSchemas();
  const draining = new AbortController();
  const mongo = openMongo({ ...given.mongodb, appName: 'examhall-web' });
  const redis = { redisUrl: given.redis.url, log };
  const [clock, doorbells, replies, probe] = [
    openServerClock(mongo),
    openDoorbells({ ...redis, lost: ringMetrics(metrics) }),
    openReplyWaiters(redis),
    redisProbe(redis),
  ];

  // Until the database is usable the process listens and reports unready.
  const hashes = openLogHashes(mongo);
  const check = async () => {
    await checkUsable(mongo, clock);
    await hashes.read();
  };
  const usable = usableOnce(untilUsable({ check, log, stop: draining.signal }));
  const ready = readiness({
    draining: draining.signal,
    checks: {
      mongodb: async () => {
        if (!usable()) throw new Error('the schema is not checked yet');
        await pingMongo(mongo, PING_MS);
      },
      redis: probe.ping,
    },
  });
  const config = dependencyMetrics(metrics, given, storesOf(ready));
  buildMetrics(metrics);
  mongoMetrics(metrics, mongo);
  queueMetrics(metrics, mongo, clock.now);
  beginObjectives(metrics);

  const services = Object.keys(SERVICES).filter((name) => (config.services as ReadonlySet<string>).has(name));
  if (services.length === 0)
    log.warn({ wanted: [...config.services] }, 'SERVICES names no service that this process can open');
  const closers: (() => Promise<unknown>)[] = [];
  const accountEnds = openChangeFeed({ ...redis, of: 'accounts' });
  closers.push(accountEnds.close);
  const context: DoorContext = {
    config,
    log,
    metrics,
    mongo,
    schemas,
    now: clock.now,
    redis,
    doorbells,
    replies,
    streams: openStreams(draining.signal, accountEnds, config.auth.trustedProxies),
    accountEnds,
    atEnd: (close: () => Promise<unknown>) => void closers.push(close),
  };

  const { secret } = config.auth.jwt;
  // As in security events, if this process has their key.
  const addressHash = secret === '' ? hashes.of : openKeyedHash(secret);
  const wrongTokens = openWrongTokens({
    trustedProxies: config.auth.trustedProxies,
    log,
    addressHash: (address) => addressHash('address', address),
    counted: tokenMetrics(metrics, { kinds: TOKEN_KINDS, outcomes: TOKEN_OUTCOMES }),
  });
  const routes = routesOf(context, { services, schemas, ready, usable, pingRedis: probe.ping, wrongTokens });
  const door = openServer({
    routes,
    schemas,
    log,
    access,
    actorHash: (actorId) => hashes.of('actor', actorId),
    wrongTokens,
    draining: draining.signal,
    limits: {
      ...config.limits,
      maxConnections: permittedConnections(config.limits.maxConnections, (fields, message) =>
        log.info(fields, message),
      ),
    },
    loopbackOnly: config.loopbackOnly,
    trustedProxies: config.auth.trustedProxies,
    dropped: connectionMetrics(metrics),
    isOutage: isPassing,
    isProven: provenCallers(config),
    observe: httpMetrics(metrics),
  });
  doorMetrics(metrics, door, context.streams);
  const heldLoop = measureEventLoop({ metrics, now: clock.now, stop: draining.signal });
  const sampling = startSampling({ mongo, now: clock.now, log, usable, heldLoop });
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
      sampling.stop();
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

/** The parts of a front door that its routes need beside the context of the services. */
interface RouteParts {
  services: readonly string[];
  schemas: Schemas;
  ready: ReturnType<typeof readiness>;
  usable: () => boolean;
  pingRedis: () => Promise<void>;
  wrongTokens: WrongTokens;
}

/** Returns all routes: those of operators and platforms, and behind the gateway those of the services. */
function routesOf(context: DoorContext, parts: RouteParts): Route[] {
  const { services, schemas, ready, usable, pingRedis, wrongTokens } = parts;
  const { config, mongo, now, log, metrics } = context;
  const { opsToken, opsReadToken, production, auth: settings } = config;
  const operating = { mongo, now, log, opsToken, pingRedis };
  const cluster = openClusterReader(mongo, now, () => redisAnswers(pingRedis));
  const served = [
    ...services.flatMap((name) => SERVICES[name]?.(context) ?? []),
    ...traceRoutes(operating),
    ...examRoutes(operating),
    ...deadLetterRoutes({ mongo, now, log, opsToken, commandAttempts: config.worker.maxAttempts }),
    ...clusterRoutes({ cluster, opsToken, opsReadToken }),
    ...auditRoutes({ mongo, opsToken }),
    ...subscriptionRoutes({
      mongo,
      now,
      log,
      opsToken,
      rules: { production, allowsPrivate: config.subscriptions.allowsPrivate },
    }),
  ];
  const routes: Route[] = [
    ...operationsRoutes({
      services,
      version: VERSION,
      ready,
      metrics,
      production,
      opsToken,
      opsReadToken,
      securityContacts: config.securityContacts,
      now,
      openApi: () => openApi({ routes, schemas, version: VERSION, title: 'examhall', examples: readExamples() }),
      mounted: () => routes,
      pages: () => pages,
    }),
    ...behindGateway(onlyWhenUsable(served, usable), gatewayToken(config)),
  ];
  const readPage = openAttemptReader(operating);
  const login = routes.find(({ operation }) => operation === 'login')?.handle;
  // Pages for a browser are no part of the API: neither its document nor its list of routes has them.
  const pages: Route[] = [
    ...referenceRoutes({ enabled: config.apiDocs, log }),
    ...mountConsole({
      mongo,
      now,
      log,
      opsToken,
      production,
      wrongTokens,
      usable,
      cluster,
      trace: (asked, by) => traceFor(operating, asked, by),
      exam: openExamReader(mongo, now),
      examAttempts: (page, by) => readAttemptsFor(operating, page, by, readPage),
      board: openBoardReader(operating),
      commandAttempts: config.worker.maxAttempts,
      auth: login === undefined ? null : { login, settings },
    }),
  ];
  return [...routes, ...pages];
}

if (import.meta.main) endLoadingWhenIdle(await openFrontDoor(configOrExit(process.env, 'web')));
