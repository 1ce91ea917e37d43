import type { PreviewDeps } from '#api/classifier/deps.ts';
import type { Call } from '#api/route.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { mockAnswer } from '#shared/classifier/mock.ts';
import type { Models, TaskTerms } from '#shared/classifier/tasks/envelope.ts';
import type { ModelAnswer, ModelTask } from '#shared/classifier/tasks/task.ts';
import type { GenerationRequest } from '#shared/generated/classifier.ts';
import { testConfig } from '#testing/actors/test-kernel.ts';
import { captureLog } from '#testing/captured-log.ts';
import { taskModels } from '#testing/models/task-models.ts';
import type { FakeOwners } from '#testing/neighbours/fake-owners.ts';

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
  const never = new AbortController().signal;
  const { organizationId = 'org-1', actorId = 'teacher-1', signal = never, stop = never } = who;
  const identity = { actor: { id: actorId, role: 'TEACHER' }, organizationId };
  return { requestId: 'request-1', params: {}, query: {}, body, headers: {}, identity, peer: '', signal, stop };
}
