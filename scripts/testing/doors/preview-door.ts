import { setTimeout as delay } from 'node:timers/promises';
import type { Test } from 'tap';
import type { PreviewDeps, SettlementWorker } from '#api/classifier/deps.ts';
import { previewGeneration } from '#api/classifier/previews.ts';
import type { Call, Reply } from '#api/route.ts';
import { generationHolds } from '#infra/mongo/classifier/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf, openSettledPoller } from '#infra/mongo/mailbox/mailbox.ts';
import { mockAnswer } from '#shared/classifier/mock.ts';
import type { Models, TaskTerms } from '#shared/classifier/tasks/envelope.ts';
import type { ModelAnswer, ModelTask } from '#shared/classifier/tasks/task.ts';
import type { GenerationPreview, GenerationRequest } from '#shared/generated/classifier.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { testConfig, testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { captureLog } from '#testing/captured-log.ts';
import { taskModels } from '#testing/models/asked-models.ts';
import { type FakeOwners, openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { runCommand } from '#workers/run-command.ts';
import { settlementActor } from '#workers/settlement/actor.ts';
import { callWith } from './in-process-door.ts';

/** A model that answers like the mock unless `script` changes the answer, and records its calls. */
export interface ScriptedModels extends Models {
  asked: { task: ModelTask; terms: TaskTerms }[];
  /** Called before each answer. It may wait, throw, or return fields that replace those of the answer. */
  script: ((task: ModelTask, signal: AbortSignal) => Promise<Partial<ModelAnswer> | undefined>) | null;
}

/** Returns models without a script. */
export function scriptedModels(): ScriptedModels {
  const models: ScriptedModels = {
    asked: [],
    script: null,
    ...taskModels(async (task, terms, signal) => {
      models.asked.push({ task, terms });
      const scripted = await models.script?.(task, signal);
      const usage = { inputTokens: 100, outputTokens: 200 };
      return { json: mockAnswer(task), usage, provider: 'mock', model: 'mock-1', ...scripted };
    }),
  };
  return models;
}

/** Returns the dependencies of one front door's previews, without HTTP. Generations are charged to `owners`. */
export function previewDoor(
  mongo: Mongo,
  parts: { owners: FakeOwners; models: ScriptedModels; change?: Partial<PreviewDeps> },
): PreviewDeps {
  const config = testConfig(parts.owners.env);
  return {
    mongo,
    now: Date.now,
    models: parts.models,
    neighbours: config.neighbours,
    outboundTimeoutMs: config.outboundTimeoutMs,
    settles: true,
    settlementWorker: null,
    timing: { leaseMs: 30_000, waitMs: 60_000 },
    log: captureLog(),
    ...parts.change,
  };
}

/** Returns the call of a generation as the server would pass it to its command. */
export function generationCall(
  change: Partial<GenerationRequest> = {},
  who: { organizationId?: string; actorId?: string; signal?: AbortSignal; stop?: AbortSignal } = {},
): Call<GenerationRequest> {
  const body: GenerationRequest = {
    mode: 'fresh',
    subject: 'Toán',
    gradeLevel: '12',
    topic: 'Đạo hàm',
    questionType: 'SINGLE_CHOICE',
    difficulty: 'dễ',
    count: 2,
    ...change,
  };
  const { organizationId = 'org-1', actorId = 'teacher-1', ...signals } = who;
  return callWith(body, { ...signals, identity: { actor: { id: actorId, role: 'TEACHER' }, organizationId } });
}

/** Opens a front door with paid generations on its own database. The test scripts the owners and the model. */
export async function paidDoor(t: Test, change: Partial<PreviewDeps> = {}) {
  const [mongo, owners, models] = [await openTestMongo(t), await openFakeOwners(t), scriptedModels()];
  const door = previewDoor(mongo, { owners, models, change });
  const called = (path: string) => owners.calls.filter((call) => call.path.endsWith(path)).length;
  const settlements = () => mailboxOf(mongo, 'settlement').find({ queue: 'settlement' }).toArray();
  const held = async () => (await generationHolds(mongo).findOne({ _id: 'org-1' }))?.holds ?? [];
  return { mongo, owners, models, door, called, settlements, held };
}

/** Opens the same door with a settlement worker, which the door notifies and for which it waits at most `waitMs`. */
export async function doorWithWorker(t: Test, waitMs?: number) {
  const parts = await paidDoor(t);
  const worker = inProcessSettlement(parts.mongo, parts.owners.env, waitMs);
  return { ...parts, worker, door: { ...parts.door, settlementWorker: worker.door } };
}

export async function preview(
  door: PreviewDeps,
  ...call: Parameters<typeof generationCall>
): Promise<GenerationPreview> {
  const reply = await previewGeneration(door, generationCall(...call));
  if (isRejection(reply)) throw new Error(reply.rejected);
  return reply.data as GenerationPreview;
}

/** Returns the status of a reply, or the code of a refusal. */
export const wordOf = (reply: Awaited<ReturnType<typeof previewGeneration>>) =>
  isRejection(reply) ? reply.rejected : (reply as Reply).status;

/** A model call that never answers; it rejects when its signal aborts. */
export const hangs: NonNullable<ScriptedModels['script']> = (_task, signal) =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });

/** A settlement worker in the process of the test, and how a front door reaches it. */
interface InProcessSettlement {
  /** For `PreviewDeps`: a ring is a run at once, and the end of a command is read from MongoDB. */
  door: SettlementWorker;
  /** While true, rings are noted and nothing is run. */
  asleep: boolean;
  rings: CommandRef[];
  results: string[];
  run(command: CommandRef): Promise<void>;
}

/** Returns a settlement worker inside the test. A front door waits at most `waitMs` for it. */
export function inProcessSettlement(mongo: Mongo, env: NodeJS.ProcessEnv, waitMs = 60_000): InProcessSettlement {
  const actor = settlementActor(testWorkerDeps(mongo, { ...env, AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1' }));
  const kernel = testKernel(mongo);
  const settlement: InProcessSettlement = {
    asleep: false,
    rings: [],
    results: [],
    async run(command) {
      settlement.results.push(await runCommand(kernel, actor, command));
    },
    door: {
      waitMs,
      settledPoller: openSettledPoller(mongo),
      doorbells: {
        async ring({ _id, queue, key }) {
          if (queue !== 'settlement') throw new Error(`rung for ${queue}`);
          settlement.rings.push({ _id, queue, key });
          if (!settlement.asleep) void settlement.run({ _id, queue, key });
          return true;
        },
        close: async () => undefined,
      },
      replies: {
        register: () => ({
          async settled({ isSettled, timeoutMs, signal }) {
            const until = performance.now() + timeoutMs;
            while (performance.now() < until && signal?.aborted !== true) {
              if (await isSettled()) return true;
              await delay(5);
            }
            return false;
          },
          cancel: () => undefined,
        }),
        size: () => 0,
        close: async () => undefined,
      },
    },
  };
  return settlement;
}
