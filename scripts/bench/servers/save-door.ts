import { attemptRoutes } from '#api/attempt/routes.ts';
import { openServer } from '#api/server.ts';
import { openLog } from '#infra/log/log.ts';
import { httpMetrics, openMetrics } from '#infra/metrics/metrics.ts';
import { openMongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import { coldFrontDoor } from '#scripts/bench/cold-front-door.ts';

/** Our front door with the routes of the attempt service, on the MongoDB of MONGODB_URL and without Redis. A save needs no Redis. */
const { log, access } = openLog({ level: 'info', name: 'web' });
const mongo = openMongo({ url: process.env.MONGODB_URL ?? '', database: 'bench', appName: 'examhall-bench-door' });
await mongo.client.connect();
const door = openServer({
  log,
  access,
  schemas: loadSchemas(),
  observe: httpMetrics(openMetrics({ process: true })),
  isOutage,
  draining: new AbortController().signal,
  trustedProxies: [],
  dropped: () => undefined,
  limits: {
    headTimeoutMs: 10_000,
    bodyTimeoutMs: 20_000,
    bodyBudgetBytes: 256 * 1_024 * 1_024,
    maxConnections: 32_768,
  },
  routes: attemptRoutes(coldFrontDoor(mongo)),
});
await door.listen(Number(process.env.PORT), '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
process.stdout.write('bench server is ready\n');
