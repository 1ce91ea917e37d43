import {
  type Acquisition,
  acquireGeneration,
  findGenerationById,
  type HeldGeneration,
  markConsumed,
  markSettled,
  releaseGeneration,
} from '#infra/mongo/classifier/generations.ts';
import { chargeOwners, type Payees } from '#infra/neighbours/billing.ts';
import { OwnerFailed } from '#infra/neighbours/owner-call.ts';
import { type ClosedAs, SETTLEMENT_BACKOFF } from '#shared/classifier/generation.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';

/** Wait before the next run if a front door holds the row and may settle it (ms). */
const BUSY_WAIT_MS = SECOND;
/** Part of the lease beyond the time limits of the two calls to usage and wallet (ms). */
const LEASE_MARGIN_MS = 5 * SECOND;

/**
 * Pays for generations whose answer is stored, under the keys of the generation. Calls no model, no preflight and no question bank. A
 * generation not settled within a day is given up: its row stays, its command becomes DEAD, and an operator can replay it.
 */
export function settlementActor(deps: WorkerDeps): Actor {
  const { classifier, neighbours } = deps.config;
  const { usage, wallet } = neighbours;
  const payees = usage === null || wallet === null || !classifier.settlementWorkerEnabled ? null : { usage, wallet };
  return {
    name: 'settlement',
    handlers: payees === null ? {} : { settlement: (run) => settleGeneration(deps, payees, run) },
    backoff: SETTLEMENT_BACKOFF,
  };
}

async function settleGeneration(
  deps: WorkerDeps,
  payees: Payees,
  run: Run<'settlement'>,
): Promise<Outcome<'settlement'>> {
  const leaseMs = 2 * deps.config.outboundTimeoutMs + LEASE_MARGIN_MS;
  const wanted = { by: 'worker', leaseMs, evenIf: consentOf(run.command) } as const;
  const acquired = await acquire(deps, run, wanted);
  switch (acquired.kind) {
    case 'gone':
      return { kind: 'dead', error: new Error('the generation to settle no longer exists') };
    case 'settled':
      return { kind: 'done', result: { settledBy: 'front door' } };
    case 'busy':
      return { kind: 'snooze', afterMs: BUSY_WAIT_MS };
    case 'expired':
      return { kind: 'dead', error: new Error('the generation was not settled within 24 hours') };
    case 'superseded':
      return {
        kind: 'dead',
        error: new Error('an equal request was charged anew; a replay needs --charge-superseded'),
      };
    case 'held':
      return charge(deps, payees, run, acquired.held);
  }
}

/** Acquires the generation of a command. The erasure of a person replaces its key: the generation is then found by its id. */
async function acquire({ mongo }: WorkerDeps, { command, session }: Run<'settlement'>, wanted: Acquisition) {
  const { previewId: _id, key } = command.body;
  const causally = { ...wanted, session };
  const named = key === undefined ? null : await acquireGeneration(mongo, { _id, key }, causally);
  if (named !== null && named.kind !== 'gone') return named;
  const row = await findGenerationById(mongo, _id, session);
  return row === null ? ({ kind: 'gone' } as const) : acquireGeneration(mongo, row, causally);
}

/** Returns the closed answers that this command may charge: none, until an operator has replayed it. */
function consentOf({ replays, body }: Run<'settlement'>['command']): ClosedAs[] {
  if (replays === 0) return [];
  return body.chargeSuperseded === true ? ['EXPIRED', 'SUPERSEDED'] : ['EXPIRED'];
}

async function charge(
  deps: WorkerDeps,
  payees: Payees,
  { checkpoint, signal }: Run<'settlement'>,
  held: HeldGeneration,
): Promise<Outcome<'settlement'>> {
  const { mongo, config } = deps;
  const { row } = held;
  const consumed = () => checkpoint({ usageConsumed: true }, (session) => markConsumed(mongo, row, session));
  try {
    await chargeOwners(payees, row, consumed, { timeoutMs: config.outboundTimeoutMs, signal });
  } catch (error) {
    if (!(error instanceof OwnerFailed)) throw error;
    const afterMs =
      error.retryAfterMs === null ? {} : { afterMs: Math.min(error.retryAfterMs, SETTLEMENT_BACKOFF.capMs) };
    // Free the row now, so that a request for the same generation need not wait for the lease.
    return { kind: 'retry', error, ...afterMs, effects: (session) => releaseGeneration(mongo, held, null, session) };
  }
  return { kind: 'done', result: { settledBy: 'worker' }, effects: (session) => markSettled(mongo, row, session) };
}
