import { setTimeout as delay } from 'node:timers/promises';
import type { LaunchPlan } from '#scripts/supervisor/kept-process.ts';

export interface Service {
  readonly name: 'mongodb' | 'redis';
  /** What it is, for a person: where the binary came from, which folder it keeps. */
  readonly origin: string;
  readonly url: string;
  /** undefined: somebody else runs it. Every start of the plan answers at the same url. */
  readonly launch: LaunchPlan | undefined;
  /** Resolves when it answers; throws when it does not. One try, under a second or two. */
  readiness(): Promise<void>;
}

/** @throws Error with the last fault when the service does not answer within `withinMs`, or when `signal` aborts. */
export async function untilReady(service: Service, withinMs: number, signal?: AbortSignal): Promise<void> {
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

/** Nothing was found and nothing could be installed: says what is missing and every way to provide it. */
export class ServiceMissing extends Error {
  constructor(what: string, reason: string, ways: readonly string[]) {
    super(
      [
        `${what} is missing: ${reason}`,
        'Any one of these provides it:',
        ...ways.map((way, n) => `  ${n + 1}. ${way}`),
      ].join('\n'),
    );
    this.name = 'ServiceMissing';
  }
}
