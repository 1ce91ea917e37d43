import type { Actor, Effects, Outcome, Run } from '#workers/actor.ts';

/** One run as a test wants it; `real` is what the actor itself would do. */
export type Step = (run: Run<never, never>, real: () => Promise<Outcome>) => Promise<Outcome>;

/** The actor with its first runs led astray, one step each; `null` and every run after the last step are its own. */
export function scripted(actor: Actor, ...steps: (Step | null)[]): Actor & { runs: string[] } {
  const runs: string[] = [];
  return {
    ...actor,
    runs,
    run(run) {
      const step = steps[runs.push(run.command._id) - 1] ?? null;
      return step === null ? actor.run(run) : step(run, () => actor.run(run));
    },
  };
}

/** The actor with the same step at every run of the commands that `when` names. */
export function misled(actor: Actor, when: (commandId: string) => boolean, step: Step): Actor {
  return { ...actor, run: (run) => (when(run.command._id) ? step(run, () => actor.run(run)) : actor.run(run)) };
}

/** An outcome with one more effect in its transaction. */
export function alsoDoing(outcome: Outcome, more: Effects): Outcome {
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
