import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { LaunchPlan } from '#scripts/start/supervisor.ts';

export interface Service {
  readonly name: 'mongodb' | 'redis';
  /** Description for the user: the program or the variable that the service comes from. */
  readonly origin: string;
  readonly url: string;
  /** The plan by which the service starts; undefined if this project does not start it. Every start answers at the same URL. */
  readonly launch: LaunchPlan | undefined;
  /** Checks once, in at most two seconds, whether the service answers. @throws Error if not */
  readiness(): Promise<void>;
}

/** Polls the service until it answers. @throws Error with the last fault after `withinMs`, or if `signal` aborts */
export async function untilReady(
  service: Pick<Service, 'origin' | 'readiness'> & { name: string },
  withinMs: number,
  signal?: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (true) {
    signal?.throwIfAborted();
    try {
      await service.readiness();
      return;
    } catch (error) {
      if (performance.now() > deadline) {
        const reason = error instanceof Error ? error.message : String(error);
        throw new Error(`${service.name} (${service.origin}) does not answer after ${withinMs / 1_000} s: ${reason}`);
      }
    }
    await delay(50);
  }
}

/** Sends one request to a server and returns the first line of its answer. @throws Error if none begins within a second */
export async function ask(url: string, usualPort: number, request: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || usualPort) });
  try {
    socket.write(request);
    const [answer] = await once(socket, 'data', { signal: AbortSignal.timeout(1_000) });
    return String(answer).split('\r\n', 1)[0] ?? '';
  } finally {
    socket.destroy();
  }
}

/** A service that was neither found nor installed. The message names the reason and every way to provide the service. */
export class ServiceMissing extends Error {
  constructor(what: string, reason: string, ways: readonly string[]) {
    const lines = ways.map((way, n) => `  ${n + 1}. ${way}`);
    super([`${what} is missing: ${reason}`, 'Any one of these provides it:', ...lines].join('\n'));
    this.name = 'ServiceMissing';
  }
}
