import type { Queue } from '#shared/kernel/command.ts';
import { type Actor, type Effects, type Handlers, type Outcome, queuesOf, type Run } from '#workers/actor.ts';

type Done = Extract<Outcome, { kind: 'done' }>;
/** An outcome with whatever result a test wants. */
export type AnyOutcome =
  | Exclude<Outcome, { kind: 'done' | 'rejected' }>
  | (Omit<Done, 'result'> & { result: unknown })
  | { kind: 'rejected'; result: unknown };

/** One run as a test wants it; `real` is what the actor itself would do with the run, or with the one given. */
export type Step = (run: Run<Queue>, real: (run?: Run<Queue>) => Promise<Outcome>) => Promise<AnyOutcome>;

/** The actor with `step` in place of each of its runs. */
export function around(actor: Actor, step: Step): Actor {
  const handlers: Handlers = {};
  function wrap<Q extends Queue>(queue: Q): void {
    const real = actor.handlers[queue];
    if (real === undefined) return;
    // A step may end a run as no actor of this queue would.
    const handler = (run: Run<Q>) => step(run, (given = run) => real(given as Run<Q>)) as Promise<Outcome<Q>>;
    Object.assign(handlers, { [queue]: handler });
  }
  for (const queue of queuesOf(actor)) wrap(queue);
  return { ...actor, handlers };
}

/** The actor with its first runs led astray, one step each; `null` and every run after the last step are its own. */
export function scripted(actor: Actor, ...steps: (Step | null)[]): Actor & { runs: string[] } {
  const runs: string[] = [];
  const led = around(actor, (run, real) => {
    const step = steps[runs.push(run.command._id) - 1] ?? null;
    return step === null ? real() : step(run, real);
  });
  return { ...led, runs };
}

/** The actor with the same step at every run of the commands that `when` names. */
export function misled(actor: Actor, when: (commandId: string) => boolean, step: Step): Actor {
  return around(actor, (run, real) => (when(run.command._id) ? step(run, real) : real()));
}

/** An outcome with one more effect in its transaction. */
export function alsoDoing(outcome: AnyOutcome, more: Effects): AnyOutcome {
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
