import type { Mongo } from '#infra/mongo/connect.ts';
import { newCommand, postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Actor } from './actor.ts';

/**
 * Writes the recurring commands of an actor where they are absent. They never end: each run puts its command back for
 * the next time, so however many processes run this actor, one of them sweeps at a time.
 */
export async function postStandingCommands(mongo: Mongo, actor: Actor, now: number): Promise<void> {
  for (const standing of actor.standing ?? []) {
    await postCommand(mongo, newCommand({ ...standing, body: {}, maxAttempts: Number.MAX_SAFE_INTEGER, now }));
  }
}
