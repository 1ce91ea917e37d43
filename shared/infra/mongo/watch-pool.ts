import type { Mongo } from './connect.ts';

/** Connections of a process to MongoDB, over all its servers. */
export interface PoolState {
  /** Connections on which a command runs. */
  inUse: number;
  /** Open connections without a command. */
  available: number;
  /** Commands that wait for a connection. */
  waiting: number;
}

/** The pool of one server. The driver numbers its connections. */
interface Pool {
  ready: Set<unknown>;
  /** Times of the check-outs (ms), by connection. */
  busy: Map<unknown, number>;
}

/**
 * Follows the connection pools of a client. `ended` receives the time of each command, in seconds. Returns a function that reads the
 * state.
 *
 * A command holds a connection from its check-out to its check-in. That time is the command's own, without its wait for a connection.
 * The driver's monitoring of commands is not used, because it also builds two events and a copy of the reply for each command.
 */
export function watchPool({ client }: Mongo, ended: (seconds: number) => void): () => PoolState {
  const pools = new Map<string, Pool>();
  let waiting = 0;

  function poolOf(address: string): Pool {
    const pool = pools.get(address) ?? { ready: new Set(), busy: new Map() };
    pools.set(address, pool);
    return pool;
  }

  client.on('connectionReady', ({ address, connectionId }) => void poolOf(address).ready.add(connectionId));
  client.on('connectionClosed', ({ address, connectionId }) => void poolOf(address).ready.delete(connectionId));
  client.on('connectionCheckOutStarted', () => {
    waiting += 1;
  });
  client.on('connectionCheckOutFailed', () => {
    waiting -= 1;
  });
  client.on('connectionCheckedOut', ({ address, connectionId }) => {
    waiting -= 1;
    const pool = pools.get(address) ?? poolOf(address);
    pool.busy.set(connectionId, performance.now());
  });
  client.on('connectionCheckedIn', ({ address, connectionId }) => {
    const pool = pools.get(address) ?? poolOf(address);
    const startedAt = pool.busy.get(connectionId);
    pool.busy.delete(connectionId);
    if (startedAt !== undefined) ended((performance.now() - startedAt) / 1_000);
  });

  return () => {
    const state = { inUse: 0, available: 0, waiting };
    for (const { ready, busy } of pools.values()) {
      state.inUse += busy.size;
      state.available += Math.max(0, ready.size - busy.size);
    }
    return state;
  };
}
