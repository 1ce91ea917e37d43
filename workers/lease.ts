import type { Command } from '#shared/kernel/command.ts';

/** The hold on a claimed command while its handler runs. */
export interface Lease {
  signal: AbortSignal;
  /** True once another worker has it, or may have: nothing of this run can be written any more. */
  lost(): boolean;
  end(): void;
}

/**
 * Renews the lease three times in its length. A renewal that is refused means that the command was claimed again
 * (we were paused) and aborts the run. One that fails for want of MongoDB is tried again at the next turn: the fence,
 * not this timer, is what keeps a late writer out. `failed` hears of the first failure only: an outage of minutes is
 * one line for each command, not one for each try.
 */
export function holdLease(
  command: Command,
  options: {
    leaseMs: number;
    renew: (command: Command) => Promise<boolean>;
    failed: (error: unknown) => void;
    stop: AbortSignal;
  },
): Lease {
  const lost = new AbortController();
  const timer = setInterval(() => void renewOnce(), options.leaseMs / 3);
  timer.unref();
  let hasFailed = false;

  async function renewOnce(): Promise<void> {
    const held = await options.renew(command).catch((error: unknown) => {
      if (!hasFailed) options.failed(error);
      hasFailed = true;
      return true;
    });
    if (held) return;
    clearInterval(timer);
    lost.abort(new Error(`lease of command ${command._id} lost`));
  }

  return {
    signal: AbortSignal.any([lost.signal, options.stop]),
    lost: () => lost.signal.aborted,
    end: () => clearInterval(timer),
  };
}
