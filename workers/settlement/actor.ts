import { findGenerationById, findOrClose, markConsumed, markSettled } from '#infra/mongo/classifier/generations.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { chargeOwners, type Payees } from '#infra/neighbours/billing.ts';
import { OwnerFailed } from '#infra/neighbours/owner-call.ts';
import type { ClassifierCommands } from '#shared/classifier/commands.ts';
import { type ClosedAs, type Generation, SETTLEMENT_BACKOFF } from '#shared/classifier/generation.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';

/** Dependencies of the handler, in a worker or a front door. */
export interface SettlementDeps {
  mongo: Mongo;
  payees: Payees;
  /** Time limit of each call to the usage or wallet service (ms). */
  timeoutMs: number;
  settledBy: ClassifierCommands['settlement']['result']['settledBy'];
}

/** Returns the actor of the settlement worker. Without its flag or a payee it has no handler. */
export function settlementActor({ mongo, config }: Pick<WorkerDeps, 'mongo' | 'config'>): Actor {
  const { classifier, neighbours, outboundTimeoutMs: timeoutMs } = config;
  const { usage, wallet } = neighbours;
  if (usage === null || wallet === null || !classifier.settlementWorkerEnabled) {
    return { name: 'settlement', handlers: {}, backoff: SETTLEMENT_BACKOFF };
  }
  return settlesWith({ mongo, payees: { usage, wallet }, timeoutMs, settledBy: 'worker' });
}

/** Returns the actor that settles. A front door runs it in its own process where the settlement worker is switched off. */
export function settlesWith(deps: SettlementDeps): Actor {
  return {
    name: 'settlement',
    handlers: { settlement: (run) => settleGeneration(deps, run) },
    backoff: SETTLEMENT_BACKOFF,
  };
}

/** Reasons why an answer is not charged any longer. */
const CLOSED: Readonly<Record<ClosedAs, string>> = {
  EXPIRED: 'the generation was not settled within 24 hours',
  SUPERSEDED: 'an equal request was charged anew; a replay needs --charge-superseded',
};

/**
 * Pays for a generation whose answer is stored, under the keys of the generation. This is the only code that charges for one. It calls
 * no model, no preflight and no question bank. The lease of the command keeps every other run and every newer epoch of the request away.
 * A generation not settled within a day is given up: its row stays, its command becomes DEAD, and an operator can replay it.
 */
async function settleGeneration(
  { mongo, payees, timeoutMs, settledBy }: SettlementDeps,
  run: Run<'settlement'>,
): Promise<Outcome<'settlement'>> {
  const row = await load(mongo, run);
  if (row === null) return { kind: 'dead', error: new Error('the generation to settle no longer exists') };
  if (row.state === 'SETTLED') return { kind: 'done', result: { settledBy } };
  if (row.closed !== null && !consentOf(run.command).includes(row.closed)) {
    return { kind: 'dead', error: new Error(CLOSED[row.closed]) };
  }
  const consumed = () => run.checkpoint({ usageConsumed: true }, (session) => markConsumed(mongo, row, session));
  try {
    await chargeOwners(payees, row, consumed, { timeoutMs, signal: run.signal });
  } catch (error) {
    if (!(error instanceof OwnerFailed)) throw error;
    const { retryAfterMs } = error;
    return {
      kind: 'retry',
      error,
      ...(retryAfterMs === null ? {} : { afterMs: Math.min(retryAfterMs, SETTLEMENT_BACKOFF.capMs) }),
    };
  }
  return { kind: 'done', result: { settledBy }, effects: (session) => markSettled(mongo, row, session) };
}

/** Returns the generation of a command, or null. The erasure of a person replaces its key: the generation is then found by its id. */
async function load(mongo: Mongo, { command, session }: Run<'settlement'>): Promise<Generation | null> {
  const { previewId: _id, key } = command.body;
  const named = key === undefined ? null : await findOrClose(mongo, { _id, key }, session);
  if (named !== null) return named;
  const row = await findGenerationById(mongo, _id, session);
  return row === null ? null : findOrClose(mongo, row, session);
}

/** Returns the closed answers that this command may charge: none, until an operator has replayed it. */
function consentOf({ replays, body }: Run<'settlement'>['command']): ClosedAs[] {
  if (replays === 0) return [];
  return body.chargeSuperseded === true ? ['EXPIRED', 'SUPERSEDED'] : ['EXPIRED'];
}
