import { type Config, VERSION } from '#infra/config/config.ts';
import type { CallObserver, CallOutcome } from '#infra/config/settings.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { SCHEMA_VERSION } from '#infra/mongo/schema/migrate.ts';
import { watchPool } from '#infra/mongo/watch-pool.ts';
import { withObservers } from '#infra/neighbours/unanswering.ts';
import type { Metrics } from './metrics.ts';

const COMMAND_BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const CALL_BUCKETS_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const OUTCOMES: readonly CallOutcome[] = ['ok', 'refused', 'failed', 'unanswered'];

/** Registers the version of the software, and the schema that it needs. */
export function buildMetrics(metrics: Metrics): void {
  const gauge = metrics.gauge('examhall_build_info', 'Always 1; the labels name the running software', [
    'version',
    'schema',
  ]);
  gauge.set(1, { version: VERSION, schema: String(SCHEMA_VERSION) });
}

/** Registers the connections of a process to MongoDB, and the time of its commands. */
export function mongoMetrics(metrics: Metrics, mongo: Mongo): void {
  const seconds = metrics.histogram(
    'examhall_mongodb_command_duration_seconds',
    'Time of a MongoDB command, without its wait for a connection',
    COMMAND_BUCKETS_S,
  );
  const state = watchPool(mongo, seconds.series({}));
  metrics.gauge('examhall_mongodb_connections', 'Open connections to MongoDB', ['state'], (gauge) => {
    const { inUse, available } = state();
    gauge.set(inUse, { state: 'in_use' });
    gauge.set(available, { state: 'available' });
  });
  metrics.gauge('examhall_mongodb_waiting', 'Commands that wait for a connection', [], (gauge) =>
    gauge.set(state().waiting),
  );
}

/** Returns the counter of rings that Redis did not store, by queue. */
export function ringMetrics(metrics: Pick<Metrics, 'counter'>): (queue: string) => void {
  const counter = metrics.counter('examhall_rings_lost_total', 'Rings that Redis did not store; the poll covers them', [
    'queue',
  ]);
  for (const queue of QUEUES) counter.add({ queue }, 0);
  return (queue) => counter.add({ queue });
}

/** Returns true if a store answers. The caller has bounded the check. */
export type StoreStates = () => Promise<Readonly<Record<'mongodb' | 'redis', boolean>>>;

/**
 * Registers which stores and neighbours answer. A neighbour has a value from its first call on: nothing calls it for this metric. It is
 * up if it answered the last call with any status below 500.
 *
 * Returns the configuration whose neighbours and webhook pass their calls to these metrics.
 */
export function dependencyMetrics(metrics: Metrics, config: Config, stores: StoreStates): Config {
  const up = new Map<string, boolean>();
  metrics.gauge('examhall_dependency_up', '1 if the store or neighbour answered last', ['name'], async (gauge) => {
    for (const [name, isUp] of Object.entries(await stores())) gauge.set(isUp ? 1 : 0, { name });
    for (const [name, isUp] of up) gauge.set(isUp ? 1 : 0, { name });
  });
  const calls = metrics.histogram(
    'examhall_neighbour_call_duration_seconds',
    'Time of a call to another service, by how it ended',
    CALL_BUCKETS_S,
  );

  function observerOf(neighbour: string): CallObserver {
    const series = new Map(OUTCOMES.map((outcome) => [outcome, calls.series({ neighbour, outcome })]));
    return (outcome, seconds) => {
      up.set(neighbour, outcome === 'ok' || outcome === 'refused');
      series.get(outcome)?.(seconds);
    };
  }

  return withObservers(config, observerOf);
}
