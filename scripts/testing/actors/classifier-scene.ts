import type { Test } from 'tap';
import { openTaskModels } from '#infra/models/perform-task.ts';
import { batchOutcomes } from '#infra/mongo/classifier/job-batches.ts';
import { findJob } from '#infra/mongo/classifier/jobs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import { classifierWork } from '#shared/classifier/commands.ts';
import { errorsOfRound, itemsOfRound } from '#shared/classifier/job-view.ts';
import { type ModelAnswer, type ModelTask, ProviderFailure } from '#shared/classifier/tasks/task.ts';
import type { Command } from '#shared/kernel/command.ts';
import { goodAnswer } from '#testing/models/generation-server.ts';
import type { StoredJobOptions } from '#testing/stored/stored-model-work.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { classifierActor } from '#workers/classifier/actor.ts';
import { runCommand } from '#workers/run-command.ts';
import { testKernel, testWorkerDeps } from './test-kernel.ts';

export const OWNER = { actorId: 'teacher-1', organizationId: 'org-1' };

export interface Data {
  questionIds: string[];
  questions?: { id: string }[];
}
type Ask = (ids: string[], signal: AbortSignal, task: ModelTask) => unknown;

export type ClassifierScene = Awaited<ReturnType<typeof classifierScene>>;

/** Opens a new database for the classifier's actor with a scripted model. */
export async function classifierScene(t: Test) {
  const mongo = await openTestMongo(t);
  /** Question ids of each model call, in order. */
  const asked: string[][] = [];
  const publishedJobs: string[] = [];
  /** By cancellation key; of the calls with one key the newest listens. */
  const listeners = new Map<string, () => void>();
  return {
    mongo,
    /** Cancels the running model call with this cancellation key. */
    cancel: (key: string) => listeners.get(key)?.(),
    asked,
    publishedJobs,
    /** Returns an actor whose model answers with the result of `ask`; `undefined` becomes a valid answer to every question. */
    actor(ask: Ask, env: NodeJS.ProcessEnv = {}) {
      const deps = { ...testWorkerDeps(mongo, env), publishJobChange: (id: string) => void publishedJobs.push(id) };
      const models = openTaskModels({
        async ask(task, { usageEvent }, signal) {
          const { questionIds } = task.data as Data;
          asked.push(questionIds);
          t.match(usageEvent, { operation: 'question-classification', ...OWNER, batchIndex: Number });
          const json = (await ask(questionIds, signal, task)) ?? goodAnswer(questionIds);
          return { json, usage: { inputTokens: 10, outputTokens: null }, provider: 'p', model: 'm' } as ModelAnswer;
        },
        listen(key, cancelled) {
          listeners.set(key, cancelled);
          return () => void listeners.delete(key);
        },
        schemas: loadSchemas(),
        now: Date.now,
      });
      return classifierActor(deps, () => models);
    },
    run: (actor: ReturnType<typeof classifierActor>, command: Command, workerId = 'worker-1') =>
      runCommand(testKernel(mongo, { workerId }), actor, command),
    job: ({ subject }: Command) => findJob(mongo, subject),
    /** Returns the stored items and errors of the command's round. */
    async stored(command: CommandOf<'classifier'>) {
      const work = classifierWork(command);
      if (work.kind !== 'round') throw new Error('this command runs no job');
      const batches = await batchOutcomes(mongo, work.at.jobId);
      return { items: itemsOfRound(work.at.round, batches), errors: errorsOfRound(work.at.round, batches) };
    },
  };
}

/** Returns the failure of a busy provider, which a later call may not meet. */
export function passing(retryAfterMs: number | null = null) {
  return new ProviderFailure('AI_PROVIDER_UNAVAILABLE', 'passing', { message: 'busy', retryAfterMs });
}

export const twelve: StoredJobOptions = { questions: 12 };

export function commandsOfJob(mongo: Mongo, jobId: string): Promise<Command[]> {
  return mailboxOf(mongo, 'classifier')
    .find({ subject: jobId }, { sort: { _id: 1 } })
    .toArray() as Promise<Command[]>;
}

/** Runs the newest round of a job, as its worker would. */
export async function runNewestRound(mongo: Mongo, jobId: string, env: NodeJS.ProcessEnv = {}): Promise<void> {
  const command = (await commandsOfJob(mongo, jobId)).at(-1);
  if (command === undefined) throw new Error(`job ${jobId} has no command`);
  await runCommand(testKernel(mongo), classifierActor(testWorkerDeps(mongo, env)), command);
}
