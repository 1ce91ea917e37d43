import type { AttemptDeps } from '#api/attempt/deps.ts';
import { openAttemptStores } from '#api/attempt/stores.ts';
import type { Call, Identity, TextReply } from '#api/route.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { openWanted } from '#infra/mongo/operations/subscriptions.ts';
import type { Queue } from '#shared/kernel/command.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { testConfig } from '#testing/actors/test-kernel.ts';
import { captureLog } from '#testing/captured-log.ts';
import { until } from '#testing/until.ts';
import type { Worker } from '#workers/worker.ts';

/**
 * Budget (ms) of a start or submit. A front door answers 503 after 5 s of write conflicts and its caller sends the request again.
 * These calls are made once, and a busy machine may need longer.
 */
const BUDGET_MS = 60_000;

/**
 * Returns the dependencies of the attempt service's commands without HTTP and Redis. A ring calls every worker of the queue directly, and
 * a reply is awaited by polling MongoDB.
 */
export function inProcessDoor(mongo: Mongo, workers: Partial<Record<Queue, readonly Worker[]>>): AttemptDeps {
  return {
    ...openAttemptStores(mongo, BUDGET_MS),
    now: Date.now,
    settings: { ...testConfig().attempt, startBudgetMs: BUDGET_MS },
    commandAttempts: 10,
    wanted: openWanted(mongo, Date.now, captureLog()),
    doorbells: {
      async ring(command) {
        const queue = command.queue as Queue;
        for (const worker of workers[queue] ?? []) void worker.tryRun({ ...command, queue });
        return true;
      },
      close: async () => undefined,
    },
    replies: {
      register: () => ({
        settled: ({ isSettled }) => until('the command has settled', isSettled, 60_000).then(() => true),
        cancel: () => undefined,
      }),
      size: () => 0,
      close: async () => undefined,
    },
  };
}

/** Returns the dependencies of a front door with empty caches and without Redis. Operations that ring fail. */
export function coldFrontDoor(mongo: Mongo): AttemptDeps {
  const never = (): never => {
    throw new Error('this front door has no Redis');
  };
  const { replies, doorbells, ...deps } = inProcessDoor(mongo, {});
  return { ...deps, doorbells: { ...doorbells, ring: never }, replies: { ...replies, register: never } };
}

/** Returns a call as the server would pass it to a command: its shape is checked. It ends only by the signals of `change`. */
export function callWith<Body>(body: Body, change: Partial<Omit<Call<Body>, 'body'>> = {}): Call<Body> {
  const { signal } = new AbortController();
  const empty = { params: {}, query: {}, headers: {}, identity: {}, peer: '' };
  return { requestId: 'request-1', ...empty, body, signal, stop: signal, ...change };
}

/** Returns a call of a student with this idempotency key. */
export function callOf<Body>(body: Body, params: Record<string, string>, studentId: string, key = 'key-1'): Call<Body> {
  const actor: Identity['actor'] = { id: studentId, role: 'STUDENT' };
  return callWith(body, { params, identity: { actor, idempotency: { key, header: 'idempotency-key' } } });
}

interface StartedAttempt {
  id: string;
  startedAt: string;
  deadlineAt: string;
  exam: { resultsReleasedAt: string | null };
}

/** Returns the attempt of the reply to a start. @throws Error with the code of a refused one */
export function startedAttempt(reply: Rejection | TextReply): StartedAttempt {
  if (!('kind' in reply)) throw new Error(reply.rejected);
  return JSON.parse(reply.data.map(String).join('')).attempt;
}
