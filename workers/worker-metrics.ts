import type { Config } from '#infra/config/config.ts';
import type { Metrics } from '#infra/metrics/metrics.ts';
import type { ModelObserver } from '#infra/models/followed-models.ts';
import { type Mongo, pingMongo } from '#infra/mongo/connect.ts';
import { checkWithin, shareRuns } from '#infra/process/health.ts';
import type { Now } from '#shared/kernel/time.ts';

/** The metrics of a worker process. */
export interface WorkerMetrics extends Pick<Metrics, 'counter' | 'gauge' | 'histogram'> {
  /** Null without METRICS_PORT. */
  served: Metrics | null;
  /** The configuration. With METRICS_PORT, its neighbours pass their calls to the metrics. */
  config: Config;
  ringLost: ((queue: string) => void) | undefined;
  /** Opens the metrics of the model providers; undefined without METRICS_PORT. */
  models: ((now: Now) => ModelObserver) | undefined;
}

/** Metrics without a reader. */
const UNREAD: Pick<Metrics, 'counter' | 'gauge' | 'histogram'> = {
  counter: () => ({ add: () => undefined }),
  gauge: () => ({ set: () => undefined }),
  histogram: () => ({ series: () => () => undefined }),
};

/**
 * Opens the metrics of a worker. Loads the library of metrics only if METRICS_PORT serves them: it takes as much memory as an actor.
 * `isUp` are the checks of the stores at a scrape.
 */
export async function openWorkerMetrics(
  config: Config,
  mongo: Mongo,
  isUp: { mongodb(): Promise<boolean>; redis(): boolean },
): Promise<WorkerMetrics> {
  if (config.metricsPort === null) return { ...UNREAD, served: null, config, ringLost: undefined, models: undefined };
  const [{ openMetrics }, own, { modelMetrics }] = await Promise.all([
    import('#infra/metrics/metrics.ts'),
    import('#infra/metrics/process-metrics.ts'),
    import('#infra/metrics/model-metrics.ts'),
  ]);
  const served = openMetrics({ process: true });
  own.buildMetrics(served);
  own.mongoMetrics(served, mongo);
  const stores = async () => ({ mongodb: await isUp.mongodb(), redis: isUp.redis() });
  return {
    ...served,
    served,
    config: own.dependencyMetrics(served, config, stores),
    ringLost: own.ringMetrics(served),
    models: (now) => modelMetrics(served, now),
  };
}

/** Time limit of a check of MongoDB, and time for which its result is used again (ms). */
const CHECK_MS = 1_000;

/** The state of a worker that its probes and scrapes show. */
export interface WorkerHealth {
  /** Records that the worker has found the database usable and claims commands. */
  begin(): void;
  /** Returns true if the worker has begun and MongoDB answers now, within a second. */
  isUp(): Promise<boolean>;
}

/** Opens the health of a worker, which has not begun. */
export function openHealth(mongo: Mongo): WorkerHealth {
  let hasBegun = false;
  const check = shareRuns(CHECK_MS, () => checkWithin(() => pingMongo(mongo, CHECK_MS), CHECK_MS));
  return {
    begin() {
      hasBegun = true;
    },
    // A client whose first command fails does not dial again, so nothing is sent before the worker has begun.
    isUp: async () => hasBegun && (await check()).status === 'up',
  };
}
