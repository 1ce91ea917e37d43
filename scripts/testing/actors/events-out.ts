import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { subscriptions } from '#infra/mongo/operations/subscriptions.ts';
import type { Command } from '#shared/kernel/command.ts';
import type { Subscription } from '#shared/operations/subscription.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { storeSubscription } from '#testing/stored/stored-events.ts';
import { openTestMongo, type Teardown } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';

/** Opens a database and neighbours on which tests publish events and send them to subscribers. */
export async function openEventsOut(t: Teardown) {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  const own = mailboxOf(mongo, 'upkeep:webhooks');
  const deps = () => testWorkerDeps(mongo);
  return {
    mongo,
    neighbours,
    deps,
    act: () => ({ operator: 'an', reason: 'a test', now: Date.now() }),
    /** Runs a command by an actor, as a worker that has just claimed it. */
    run: (actor: string, command: Command, its = deps()) =>
      runCommand(testKernel(mongo), makeActor(actor, its), command),
    /** Returns the messages of an event. */
    messages: (eventId: string) => own.find({ 'body.eventId': eventId }).toArray(),
    stored: ({ _id }: Command) => own.findOne({ _id }),
    /** Returns the calls that carried an event. */
    callsOf: (id: string) => neighbours.calls.filter(({ body }) => body?.id === id),
    /** Stores the only subscription, at the neighbours' server. */
    async only(overrides: Partial<Subscription> = {}): Promise<Subscription> {
      await subscriptions(mongo).deleteMany({});
      return storeSubscription(mongo, `${neighbours.url}/events`, overrides);
    },
  };
}
