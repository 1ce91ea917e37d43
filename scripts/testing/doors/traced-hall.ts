import type { Test } from 'tap';
import type { AttemptDeps } from '#api/attempt/deps.ts';
import { attemptRoutes } from '#api/attempt/routes.ts';
import { openStreams } from '#api/http/live-stream.ts';
import { notificationRoutes } from '#api/notification/mount.ts';
import type { Route } from '#api/route.ts';
import { openLog } from '#infra/log/log.ts';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { testConfig, testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { captureLog } from '#testing/captured-log.ts';
import { callHttp } from '#testing/clients/http-call.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { sampleAnswer, samplePaper } from '#testing/stored/sample-attempt.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { queuesOf } from '#workers/actor.ts';
import type { MakeActor } from '#workers/actors.ts';
import { deliveryActor } from '#workers/delivery/actor.ts';
import { gradeNoticesActor } from '#workers/grade-notices/actor.ts';
import { gradingActor } from '#workers/grading/actor.ts';
import { upkeepActor } from '#workers/upkeep/actor.ts';
import type { Worker } from '#workers/worker.ts';
import { inProcessDoor } from './in-process-door.ts';
import { openTestDoor } from './test-door.ts';

/** The trace of the caller. */
export const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
export const TOKEN = { INTERNAL_SERVICE_TOKEN: 'token-of-the-test' };
/** Headers of a caller that traces. */
export const CALLER = {
  traceparent: `00-${TRACE}-00f067aa0ba902b7-01`,
  tracestate: 'rojo=1',
  'x-request-id': 'request-7',
};

export type Hall = Awaited<ReturnType<typeof openHall>>;

/** Opens the attempt and the notification service in this process. Every ring is lost; `run` polls. */
export async function openHall(t: Test) {
  const [mongo, neighbours] = [await openTestMongo(t), await openNeighbours(t)];
  const text: string[] = [];
  const logs = openLog({ level: 'info', name: 'test', destination: { write: (line) => text.push(line) } });
  const noRings = { ring: async () => true, close: async () => undefined };
  const notificationUrl = await openDoor(
    t,
    logs,
    notificationRoutes({
      mongo,
      now: Date.now,
      doorbells: noRings,
      senderTokens: testConfig(TOKEN).notification.senderTokens,
      channels: new Set(['webhook'] as const),
      pushKey: null,
      pushHosts: [],
      unsubscribeKey: null,
      deliveryAttempts: 6,
      commandAttempts: 10,
      isAudited: false,
      notifyStreams: () => undefined,
      inboxChanges: { listen: () => () => undefined, isConnected: () => true },
      streams: openStreams(new AbortController().signal),
      log: captureLog(),
    }),
  );
  const workers: Partial<Record<Queue, readonly Worker[]>> = {};
  const deps: AttemptDeps = inProcessDoor(mongo, workers);
  const settings = { ...testConfig(TOKEN).attempt, gradingWaitMs: 0 };
  const env = { ...TOKEN, ...neighbours.env, ...neighbours.webhookEnv, NOTIFICATION_SERVICE_URL: notificationUrl };
  const workerDeps = testWorkerDeps(mongo, env);
  return {
    mongo,
    neighbours,
    attemptUrl: await openDoor(
      t,
      logs,
      attemptRoutes({
        ...deps,
        settings,
        replies: { ...deps.replies, register: () => ({ settled: async () => false, cancel: () => undefined }) },
      }),
    ),
    /** Runs the commands of these actors to their end, one actor after the other. */
    async run(...actors: MakeActor[]): Promise<void> {
      for (const makeActor of actors) {
        const actor = makeActor(workerDeps);
        const worker = testWorker(t, { ...testKernel(mongo), log: logs.log }, actor);
        const isOpen = { queue: { $in: queuesOf(actor) }, status: 'PENDING' };
        await until('no command of the actor is open', async () => {
          await worker.poll();
          await worker.idle();
          const open = MAILBOXES.map((name) => mongo.db.collection(name).countDocuments(isOpen));
          return (await Promise.all(open)).every((count) => count === 0);
        });
      }
    },
    async commands() {
      const found = MAILBOXES.map((name) => mongo.db.collection<Command>(name).find().toArray());
      return (await Promise.all(found)).flat();
    },
    /** Returns the lines of the log of doors and workers, parsed. */
    lines: (): Record<string, unknown>[] => text.map((line) => JSON.parse(line)),
  };
}

async function openDoor(t: Test, logs: ReturnType<typeof openLog>, routes: Route[]): Promise<string> {
  const { port } = await openTestDoor(t, { routes, schemas: 'product', logs });
  return `http://127.0.0.1:${port}`;
}

export const PAPER = samplePaper({ questionId: 'choice' });
export const RIGHT = { q0: sampleAnswer({ selected: ['a'] }) };
/** The actors from a submit to the delivery of its notices and to its report to analytics. */
export const CHAIN = [gradingActor, gradeNoticesActor, deliveryActor, upkeepActor];

/** Submits an answered attempt with these headers, and returns its id. */
export async function submit(t: Test, { mongo, attemptUrl }: Hall, headers: Record<string, string>): Promise<string> {
  const attempt = await storeAttempt(mongo, { answers: RIGHT }, PAPER);
  const identity = { 'x-user-id': attempt.studentId, 'x-user-role': 'STUDENT' };
  const reply = await callHttp(attemptUrl, 'POST', `/v1/attempts/${attempt._id}/submit`, {
    headers: { ...identity, ...headers },
    body: {},
  });
  t.equal(reply.status, 202, reply.text);
  return attempt._id;
}

/** Lets the receiver refuse the first call of each delivery. */
export function refuseFirstDeliveries({ neighbours }: Hall): void {
  const seen = new Set<unknown>();
  neighbours.answer = ({ path, body }) => {
    if (path !== '/hook' || seen.has(body?.deliveryJobId)) return undefined;
    seen.add(body?.deliveryJobId);
    return { status: 503 };
  };
}
