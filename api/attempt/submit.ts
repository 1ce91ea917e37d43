import { ringAndWait } from '#api/ring-and-wait.ts';
import type { Call, Reply, TextReply } from '#api/route.ts';
import { findAttempt } from '#infra/mongo/attempt/attempts.ts';
import { appendClientEvent } from '#infra/mongo/attempt/events.ts';
import { readSitting } from '#infra/mongo/attempt/refs.ts';
import { markSubmitted } from '#infra/mongo/attempt/submit.ts';
import { inCausalOrder } from '#infra/mongo/causal-read.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import { findLive, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import { type Attempt, type AttemptKey, roundOf, type Sitting, type SubmitSource } from '#shared/attempt/attempt.ts';
import { gradingKey } from '#shared/attempt/commands.ts';
import { metadataFault } from '#shared/attempt/events.ts';
import { DETAIL_EVENTS } from '#shared/attempt/limits.ts';
import { eventForReply } from '#shared/attempt/redact.ts';
import type { PostEventRequest, SubmitRequest } from '#shared/generated/attempt.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type AttemptDeps, detailReply, ownAttemptRef, refusalOf, viewerOf } from './deps.ts';

/** Submits for the student and waits for the grade. Later submits get the same result, also after a TIMEOUT. */
export async function submitAttempt(
  deps: AttemptDeps,
  call: Call<SubmitRequest>,
): Promise<Reply | TextReply | Rejection> {
  const ref = await ownAttemptRef(deps, call);
  if (isRejection(ref)) return ref;
  const command = await ensureSubmitted(deps, ref, 'STUDENT', null);
  return gradedReply(deps, call, ref, command);
}

/** Rounds that a submit may meet. Each further one means that the attempt was submitted and reopened once more meanwhile. */
const MAX_ROUNDS = 5;

/**
 * Submits the attempt if it is in progress. Returns the grading command of its round, or null if it has none. A number in
 * `overdueByMs` submits only if the deadline has passed by that many ms; null submits at any time.
 */
async function ensureSubmitted(
  deps: AttemptDeps,
  attempt: Sitting,
  source: SubmitSource,
  overdueByMs: number | null,
): Promise<CommandOf<'grading'> | null> {
  return inCausalOrder(deps.mongo, async (session) => {
    let sitting = attempt;
    for (let pass = 1; pass <= MAX_ROUNDS; pass++) {
      const submitted = await deps.markSubmitted({
        attempt: sitting,
        source,
        overdueByMs,
        maxAttempts: deps.commandAttempts,
        now: deps.now(),
        isWanted: await deps.wanted.wants('attempt.submitted'),
        budgetMs: deps.settings.startBudgetMs,
        session,
      });
      if (submitted.kind === 'submitted') return submitted.command;
      const stored = await readSitting(deps.mongo, sitting, session);
      if (stored === null) return null;
      // It was reopened since this process read it. The grading of the round before would answer with a grade that is gone.
      const isOther = stored.status === 'IN_PROGRESS' && roundOf(stored) !== roundOf(sitting);
      if (!isOther) return findLive(deps.mongo, 'grading', gradingKey(stored), session);
      sitting = stored;
    }
    return null;
  });
}

/**
 * Submits an attempt whose deadline has passed by MongoDB's clock, and rings for its grade without waiting for it. Returns true if it is
 * submitted now, by this call or by another.
 */
export async function submitOverdue(deps: AttemptDeps, attempt: Sitting): Promise<boolean> {
  const command = await ensureSubmitted(deps, attempt, 'TIMEOUT', 0);
  if (command === null) return false;
  void deps.doorbells.ring(command, command.attempts);
  return true;
}

/** The act of an examiner that has submitted an attempt, in this round, and the time that is left to wait for the grade. */
interface HandedIn {
  act: CommandRef;
  round: number;
  timeoutMs: number;
}

/**
 * Waits for the grade up to `gradingWaitMs`. Returns 200 with the graded attempt, or 202 with it as stored if late. The repeat of an act may
 * find the attempt in a later round: then its own has ended.
 */
export async function gradedReply(
  deps: AttemptDeps,
  call: Call<unknown>,
  ref: AttemptKey,
  command: CommandOf<'grading'> | null,
  handedIn?: HandedIn,
): Promise<Reply | TextReply | Rejection> {
  const limits = { timeoutMs: handedIn?.timeoutMs ?? deps.settings.gradingWaitMs, signal: call.signal };
  const settled = command !== null && (await ringAndWait(deps, command, limits)) ? command : (handedIn?.act ?? null);
  const attempt = await attemptAfter(deps, ref, settled);
  const viewer = viewerOf(call.identity);
  if (attempt === null) return refusalOf(deps, ref._id, viewer);
  const isOver = attempt.status === 'GRADED' || (handedIn !== undefined && roundOf(attempt) > handedIn.round);
  return detailReply(deps, attempt, viewer, { status: isOver ? 200 : 202, eventLimit: DETAIL_EVENTS });
}

/**
 * Reads the attempt after the command that has settled, if one has. If the attempt shows no grade, the commit of the grade may be visible
 * on the shard of the command alone: the second read waits for it.
 */
async function attemptAfter(
  { mongo, findAttempt: find }: AttemptDeps,
  ref: AttemptKey,
  settled: CommandRef | null,
): Promise<Attempt | null> {
  const attempt = await find(ref);
  if (attempt === null || attempt.status === 'GRADED' || settled === null) return attempt;
  return inCausalOrder(mongo, async (session) => {
    await readCommand(mongo, settled, session);
    return findAttempt(mongo, ref, session);
  });
}

/** Logs an event of the student's client. A TIMEOUT submits an attempt in progress; the event limit never refuses a TIMEOUT. */
export async function postEvent(
  deps: AttemptDeps,
  call: Call<PostEventRequest>,
): Promise<Reply | TextReply | Rejection> {
  const ref = await ownAttemptRef(deps, call);
  if (isRejection(ref)) return ref;
  const { type } = call.body;
  const metadata = call.body.metadata ?? {};
  const client = call.body.metadata == null ? {} : { client: JSON.stringify(metadata) };
  const tooLarge = metadataFault(metadata);
  if (tooLarge !== null) return tooLarge;

  if (type === 'TIMEOUT') {
    const sitting = (await inCausalOrder(deps.mongo, (session) => readSitting(deps.mongo, ref, session))) ?? ref;
    const submitted = await markSubmitted(deps.mongo, {
      attempt: sitting,
      source: 'TIMEOUT',
      ...client,
      overdueByMs: null,
      maxAttempts: deps.commandAttempts,
      now: deps.now(),
      isWanted: await deps.wanted.wants('attempt.submitted'),
      budgetMs: FRONT_DOOR_BUDGET_MS,
    });
    if (submitted.kind === 'submitted') return gradedReply(deps, call, ref, submitted.command);
    // The attempt was not in progress: store the TIMEOUT as an ordinary event.
  }
  const write = { attempt: ref, type, metadata: JSON.stringify(metadata) };
  const limits = { budgetMs: FRONT_DOOR_BUDGET_MS, now: deps.now };
  const appended = await appendClientEvent(deps.mongo, deps.eventTails, write, limits);
  if (appended.kind === 'missing') return refusalOf(deps, ref._id, viewerOf(call.identity));
  if (appended.kind === 'full') return { rejected: 'EVENT_LIMIT_REACHED' };
  return { status: 201, data: eventForReply(ref._id, appended.event, true) };
}
