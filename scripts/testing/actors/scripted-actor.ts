import type { Queue } from '#shared/kernel/command.ts';
import { type Actor, type Effects, type Handlers, type Outcome, queuesOf, type Run } from '#workers/actor.ts';

type Done = Extract<Outcome, { kind: 'done' }>;
export type AnyOutcome =
  | Exclude<Outcome, { kind: 'done' | 'rejected' }>
  | (Omit<Done, 'result'> & { result: unknown })
  | { kind: 'rejected'; result: unknown };

/** Replaces one run of an actor. `real` calls the actor's own handler, with this run or with the run passed to it. */
export type Step = (run: Run<Queue>, real: (run?: Run<Queue>) => Promise<Outcome>) => Promise<AnyOutcome>;

/** Returns the actor with `step` in place of each of its runs. */
export function withStep(actor: Actor, step: Step): Actor {
  const handlers: Handlers = {};
  function wrap<Q extends Queue>(queue: Q): void {
    const real = actor.handlers[queue];
    if (real === undefined) return;
    // A step may return an outcome that no actor of this queue returns.
    const handler = (run: Run<Q>) => step(run, (given = run) => real(given as Run<Q>)) as Promise<Outcome<Q>>;
    Object.assign(handlers, { [queue]: handler });
  }
  for (const queue of queuesOf(actor)) wrap(queue);
  return { ...actor, handlers };
}

/** Returns the actor with its first runs replaced, one step each. `null`, and every run after the last step, calls the actor's handler. */
export function scriptActor(actor: Actor, ...steps: (Step | null)[]): Actor & { runs: string[] } {
  const runs: string[] = [];
  const actorWithSteps = withStep(actor, (run, real) => {
    const step = steps[runs.push(run.command._id) - 1] ?? null;
    return step === null ? real() : step(run, real);
  });
  return { ...actorWithSteps, runs };
}

/** Returns the outcome with one more effect in its transaction. A rejected outcome has no effects and is returned unchanged. */
export function withEffect(outcome: AnyOutcome, more: Effects): AnyOutcome {
  if (outcome.kind === 'rejected') return outcome;
  const { effects } = outcome;
  return {
    ...outcome,
    effects: async (session) => {
      await effects?.(session);
      await more(session);
    },
  };
}
