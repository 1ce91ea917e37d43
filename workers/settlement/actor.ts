import {
  giveUpGeneration,
  type HeldGeneration,
  markConsumed,
  markSettled,
  takeGeneration,
} from '#infra/mongo/classifier/generations.ts';
import { chargeOwners, type Payees } from '#infra/neighbours/billing.ts';
import { OwnerFailed } from '#infra/neighbours/owner-call.ts';
import { type Generation, SETTLEMENT_BACKOFF } from '#shared/classifier/generation.ts';
import type { Command } from '#shared/kernel/command.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';

/** A look at a row that a front door is settling just now (ms). */
const BUSY_REST_MS = SECOND;
/** Beside the two calls to the owners (ms). */
const LEASE_MARGIN_MS = 5 * SECOND;

/**
 * Pays for generations that their front door could not pay for, under the keys that were stored with them. Asks no model, no preflight and
 * no question bank. What is a day old is given up: it stays, with its command dead, and is tried again when an operator says so.
 */
export function settlementActor(deps: WorkerDeps): Actor {
  const { classifier, neighbours } = deps.config;
  const { usage, wallet } = neighbours;
  const payees = usage === null || wallet === null || !classifier.settlementWorkerEnabled ? null : { usage, wallet };
  return {
    name: 'settlement',
    handlers: payees === null ? {} : { settlement: (run) => settle(deps, payees, run) },
    backoff: SETTLEMENT_BACKOFF,
  };
}

async function settle(deps: WorkerDeps, payees: Payees, run: Run<'settlement'>): Promise<Outcome<'settlement'>> {
  const { previewId } = run.command.body;
  const leaseMs = 2 * deps.config.outboundTimeoutMs + LEASE_MARGIN_MS;
  const taken = await takeGeneration(deps.mongo, previewId, { by: 'worker', leaseMs });
  switch (taken.kind) {
    case 'gone':
      return { kind: 'dead', error: new Error('a generation that is owed is gone') };
    case 'settled':
      return { kind: 'done', result: { settledBy: 'front door' } };
    case 'busy':
      return { kind: 'snooze', afterMs: BUSY_REST_MS };
    case 'held': {
      const { held } = taken;
      if (!isGivenUp(deps, held.row, run.command)) return charge(deps, payees, run, held);
      const error = new Error('a generation was not settled within its day');
      return { kind: 'dead', error, effects: (session) => giveUpGeneration(deps.mongo, held, null, session) };
    }
  }
}

/** An operator who runs a dead one again has looked. */
function isGivenUp({ now }: WorkerDeps, { replayUntil }: Generation, { replays }: Pick<Command, 'replays'>): boolean {
  return replays === 0 && replayUntil !== null && replayUntil.getTime() <= now();
}

async function charge(
  deps: WorkerDeps,
  payees: Payees,
  { checkpoint, signal }: Run<'settlement'>,
  held: HeldGeneration,
): Promise<Outcome<'settlement'>> {
  const { mongo, config } = deps;
  const { row } = held;
  const consumed = () => checkpoint({ usageConsumed: true }, (session) => markConsumed(mongo, row._id, session));
  try {
    await chargeOwners(payees, row, consumed, { timeoutMs: config.outboundTimeoutMs, signal });
  } catch (error) {
    if (!(error instanceof OwnerFailed)) throw error;
    const afterMs =
      error.retryAfterMs === null ? {} : { afterMs: Math.min(error.retryAfterMs, SETTLEMENT_BACKOFF.capMs) };
    // A request of the same kind need not wait for the lease.
    return { kind: 'retry', error, ...afterMs, effects: (session) => giveUpGeneration(mongo, held, null, session) };
  }
  return { kind: 'done', result: { settledBy: 'worker' }, effects: (session) => markSettled(mongo, row, session) };
}
