import { ACCESS_SECONDS, REFRESH_SECONDS } from '../shared/auth/claims.ts';
import { HasherBusy } from '../shared/infra/bcrypt/bounded-queue.ts';
import { openHasher } from '../shared/infra/bcrypt/hasher.ts';
import { configOrExit } from '../shared/infra/config/config-or-exit.ts';
import { secretsOf } from '../shared/infra/config/secrets.ts';
import { VERSION } from '../shared/infra/config/version.ts';
import { openSigner } from '../shared/infra/jwt/signer.ts';
import { openLog } from '../shared/infra/log/log.ts';
import { httpMetrics } from '../shared/infra/metrics/http-metrics.ts';
import { openMetrics } from '../shared/infra/metrics/metrics.ts';
import { openHeads } from '../shared/infra/mongo/attempt/heads.ts';
import { openPapers } from '../shared/infra/mongo/attempt/papers.ts';
import { openMongo, pingMongo } from '../shared/infra/mongo/connect.ts';
import { isOutage } from '../shared/infra/mongo/faults.ts';
import { openSettledLooks } from '../shared/infra/mongo/mailbox/settled-looks.ts';
import { openServerClock } from '../shared/infra/mongo/server-clock.ts';
import { checkUsable, untilUsable } from '../shared/infra/mongo/until-usable.ts';
import { commonPasswords } from '../shared/infra/passwords/common-passwords.ts';
import { openBackground } from '../shared/infra/process/background.ts';
import { drainOnSignal } from '../shared/infra/process/drain.ts';
import { openAddressFailures } from '../shared/infra/redis/address-failures.ts';
import { redisProbe } from '../shared/infra/redis/connection.ts';
import { openDoorbells } from '../shared/infra/redis/doorbell.ts';
import { openChangeBell } from '../shared/infra/redis/change-bell.ts';
import { openReplyWaiters } from '../shared/infra/redis/replies.ts';
import { loadSchemas } from '../shared/infra/schema/validator.ts';
import { attemptRoutes } from './attempt/routes.ts';
import { authRoutes } from './auth/routes.ts';
import { openCallerAddress } from './middleware/caller-address.ts';
import { behindGateway, gatewayToken } from './middleware/guards/gateway-token.ts';
import { openStreamPlaces } from './middleware/stream-places.ts';
import { notificationRoutes } from './notification/routes.ts';
import { onlyWhenUsable } from './only-when-usable.ts';
import { openApi } from './openapi.ts';
import { queueMetrics } from './operations/queue-metrics.ts';
import { operationsRoutes } from './operations/routes.ts';
import type { Route } from './route.ts';
import { openServer } from './server.ts';

/** A `web` process: the front doors of the services named by SERVICES, on one port. */
const PAPER_CACHE_BYTES = 128 * 1_024 * 1_024;
const CACHED_HEADS = 20_000;
const PING_MS = 500;
/** Calls at once, and calls waiting, of best-effort work. */
const BACKGROUND = { concurrency: 16, maxWaiting: 1_000 };
/** For best-effort work at the very end: nobody waits for it, and a neighbour that hangs must not hold up a stop. */
const LAST_BACKGROUND_MS = 1_000;
/** Live streams that the process holds open, and those of one caller: browsers open six per host themselves. */
const STREAMS = 5_000;
const STREAMS_PER_ACTOR = 10;
/** Of libuv's four threads one is left for names, files and the hashes of refresh tokens. */
const HASHES_AT_ONCE = 3;
/** A login behind as many as these waits some five seconds at the default cost; the next one is told to come again. */
const WAITING_HASHES = 60;

const config = configOrExit(process.env);
const { log, access, flush } = openLog({ level: config.logLevel, name: 'web', secrets: secretsOf(config) });
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
const [addressFailures, inboxBell] = [openAddressFailures(redis), openChangeBell({ ...redis, of: 'inboxes' })];
const alarms = metrics.counter('examhall_alarms_total', 'Things an operator should look at', ['name']);
/** Only the audit service is told of things in the background here. */
const background = openBackground({
  ...BACKGROUND,
  dropped: (count) => alarms.add({ name: 'background_dropped' }, count),
  failed(err) {
    alarms.add({ name: 'audit_failed' });
    log.warn({ err }, 'the audit service was not told');
  },
});
for (const warning of [...config.warnings, ...config.doorWarnings]) log.warn({}, warning);

/** One line per service: its name and what mounts its routes. */
const SERVICES: Readonly<Record<string, () => Route[]>> = {
  attempt: () =>
    attemptRoutes({
      ...{
        mongo,
        doorbells,
        replies,
        looks: openSettledLooks(mongo),
        now: clock.now,
        settings: config.attempt,
        gatewayToken: config.gatewayToken,
      },
      ...{ papers: openPapers(mongo, PAPER_CACHE_BYTES), heads: openHeads(mongo, CACHED_HEADS) },
      commandAttempts: config.worker.maxAttempts,
    }),
  auth: () =>
    authRoutes({
      ...{ mongo, now: clock.now, settings: config.auth },
      hasher: openHasher({ ...config.auth.bcrypt, concurrency: HASHES_AT_ONCE, maxWaiting: WAITING_HASHES }),
      signer: openSigner({
        ...config.auth.jwt,
        accessSeconds: ACCESS_SECONDS,
        refreshSeconds: REFRESH_SECONDS,
        now: clock.now,
      }),
      addressFailures,
      addressOf: openCallerAddress(config.auth.trustedProxies),
      isCommonPassword: commonPasswords(),
    }),
  notification: () =>
    notificationRoutes({
      ...{ mongo, now: clock.now, doorbells, background, outboundTimeoutMs: config.outboundTimeoutMs },
      ...{ senderTokens: config.notification.senderTokens, channels: config.notification.channels },
      deliveryAttempts: config.notification.delivery.maxAttempts,
      commandAttempts: config.worker.maxAttempts,
      audit: config.neighbours.audit,
      ...{ wake: inboxBell.wake, inboxes: inboxBell, log },
      streams: { places: openStreamPlaces({ perActor: STREAMS_PER_ACTOR, inAll: STREAMS }), draining: draining.signal },
    }),
};
const services = Object.keys(SERVICES).filter((name) => (config.services as ReadonlySet<string>).has(name));
if (services.length === 0) log.warn({ wanted: [...config.services] }, 'SERVICES names none that this process can open');

queueMetrics(metrics, mongo, clock.now);
let isUsable = false;
const usable = () => isUsable;
// The process listens meanwhile and is unready.
void untilUsable({ check: () => checkUsable(mongo, clock), log, stop: draining.signal }).then((found) => {
  isUsable = found;
});
const routes: Route[] = [
  ...operationsRoutes({
    ...{ services, version: VERSION, draining: draining.signal, metrics, production: config.production },
    opsToken: config.opsToken,
    checks: {
      mongodb: async () => {
        if (!usable()) throw new Error('the schema has not been checked yet');
        await pingMongo(mongo, PING_MS);
      },
      redis: probe.ping,
    },
    openApi: () => openApi({ routes, schemas, version: VERSION, title: 'examhall' }),
    mounted: () => routes,
  }),
  ...behindGateway(
    onlyWhenUsable(
      services.flatMap((name) => SERVICES[name]?.() ?? []),
      usable,
    ),
    gatewayToken(config),
  ),
];

const door = openServer({
  ...{ routes, schemas, log, access, draining: draining.signal, limits: config.limits },
  // Too many hashes in line is no fault of the request either: come back in a moment.
  isOutage: (error) => isOutage(error) || error instanceof HasherBusy,
  observe: httpMetrics(metrics),
});
drainOnSignal({
  ...{ signals: process, exit: process.exit, log, draining, close: door.close },
  graceMs: config.shutdown.drainGraceMs,
  timeoutMs: config.shutdown.timeoutMs,
  async after() {
    clock.stop();
    await background.end(LAST_BACKGROUND_MS);
    await Promise.allSettled(
      [doorbells, replies, probe, addressFailures, inboxBell, mongo].map((store) => store.close()),
    );
    flush();
  },
});
const port = await door.listen(config.port, config.host);
log.info({ host: config.host, port, services, version: VERSION }, 'front door is open');
