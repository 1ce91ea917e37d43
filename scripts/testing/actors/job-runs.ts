import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import type { Command } from '#shared/kernel/command.ts';
import { classifierActor } from '#workers/classifier/actor.ts';
import { runCommand } from '#workers/run-command.ts';
import { testKernel, testWorkerDeps } from './test-kernel.ts';

/** The commands of a job, one for each of its rounds. */
export function commandsOfJob(mongo: Mongo, jobId: string): Promise<Command[]> {
  return mailboxOf(mongo, 'classifier')
    .find({ subject: jobId }, { sort: { _id: 1 } })
    .toArray() as Promise<Command[]>;
}

/** Runs the newest round of a job, as its worker would. */
export async function runNewestRound(mongo: Mongo, jobId: string, env: NodeJS.ProcessEnv = {}): Promise<void> {
  const command = (await commandsOfJob(mongo, jobId)).at(-1);
  if (command === undefined) throw new Error(`job ${jobId} has no command`);
  await runCommand(testKernel(mongo), classifierActor(testWorkerDeps(mongo, env)), 'classifier', command._id);
}
