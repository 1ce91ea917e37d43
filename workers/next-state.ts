import type { Failure, NextState } from '#infra/mongo/mailbox/settle.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { failureIn, refusalIn } from '#shared/kernel/failure.ts';
import { beginningOf } from '#shared/kernel/text.ts';
import { backoff, spreadWait } from '#shared/kernel/time.ts';
import type { Actor, Outcome } from './actor.ts';

/**
 * Returns the next state of a command after an outcome. A `retry` on the last attempt becomes DEAD.
 *
 * A requested delay may lengthen the backoff, never shorten it. A receiver that answers "retry in 1 s" during an outage would
 * otherwise use up every attempt. Pure; `random` is in [0, 1).
 */
export function nextStateOf<Q extends Queue>(
  command: Pick<Command, 'attempts' | 'maxAttempts'>,
  outcome: Outcome<Q>,
  rules: { backoff: Actor['backoff']; random: number },
): NextState<Q> {
  switch (outcome.kind) {
    case 'done':
      return { to: outcome.as ?? 'DONE', result: outcome.result };
    case 'rejected':
      return { to: 'REJECTED', result: outcome.result };
    case 'dead':
      return { to: 'DEAD', error: errorOf(outcome.error) };
    case 'snooze':
      return {
        to: 'AGAIN',
        inMs: outcome.afterMs,
        unspent: true,
        error: outcome.error === undefined ? null : errorOf(outcome.error),
      };
    case 'retry': {
      if (command.attempts >= command.maxAttempts) return { to: 'DEAD', error: errorOf(outcome.error) };
      const backoffMs = backoff({ ...rules.backoff, attempt: command.attempts, random: rules.random });
      const inMs = Math.max(spreadWait(outcome.afterMs ?? 0, rules.random), backoffMs);
      return { to: 'AGAIN', inMs, unspent: false, error: errorOf(outcome.error) };
    }
    default:
      return outcome satisfies never;
  }
}

/**
 * Returns the error message with the code or name of its root cause, at most 500 characters, its code and its refusal. The message of the root cause is
 * left out, because it may contain request data.
 */
function errorOf(error: Error): Failure {
  const root = rootOf(error);
  const message = root === undefined ? error.message : `${error.message} (${root})`;
  const refusal = refusalIn(error);
  const about = { fingerprint: fingerprintOf(error), message: beginningOf(message, 500), code: failureIn(error) };
  return refusal === null ? about : { ...about, refusal };
}

function rootOf(error: Error): string | undefined {
  let root: string | undefined;
  for (let cause = error.cause, depth = 0; cause instanceof Error && depth < 5; cause = cause.cause, depth++) {
    const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined;
    const name = cause.name === 'Error' || cause.name === 'TypeError' ? undefined : cause.name;
    root = code ?? name ?? root;
  }
  return root;
}

/**
 * Returns the same text for errors of one cause: the error's name, and its message without ids, numbers and quoted values. The
 * list of dead letters is grouped by it, so an operator fixes one cause and replays all of its commands.
 */
function fingerprintOf(error: Error): string {
  const shape = error.message
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, '<id>')
    .replace(/"[^"]*"|'[^']*'/g, '<value>')
    .replace(/\d+(\.\d+)?/g, '<n>')
    .replace(/\s+/g, ' ')
    .trim();
  return `${error.name}: ${beginningOf(shape, 120)}`;
}
