import type { Route } from '#api/route.ts';
import { openServer } from '#api/server.ts';
import { openLog } from '#infra/log/log.ts';
import { httpMetrics, openMetrics } from '#infra/metrics/metrics.ts';
import { loadSchemas } from '#infra/schema/validator.ts';

interface BenchDoor {
  level: 'info' | 'silent';
  isOutage: (error: unknown) => boolean;
  routes: readonly Route[];
}

/** Serves these routes on PORT as a `web` process does, with its limits and without `TRUSTED_PROXIES`, until SIGTERM. */
export async function serveBench({ level, isOutage, routes }: BenchDoor): Promise<void> {
  const { log, access } = openLog({ level, name: 'web' });
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
    routes,
  });
  await door.listen(Number(process.env.PORT), '127.0.0.1');
  process.on('SIGTERM', () => process.exit(0));
  process.stdout.write('bench server is ready\n');
}
