import { setTimeout as delay } from 'node:timers/promises';
import type { SettlementWorker } from '#api/classifier/deps.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { openSettledPoller } from '#infra/mongo/mailbox/mailbox.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { runCommand } from '#workers/run-command.ts';
import { settlementActor } from '#workers/settlement/actor.ts';
import { testKernel, testWorkerDeps } from './test-kernel.ts';

/** A settlement worker in the process of the test, and how a front door reaches it. */
export interface InProcessSettlement {
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
