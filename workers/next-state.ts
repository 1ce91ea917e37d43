import type { Failure, NextState } from '#infra/mongo/mailbox/settle.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { backoff } from '#shared/kernel/time.ts';
import type { Actor, Outcome } from './actor.ts';

/**
 * The state that an outcome leaves behind: the last attempt's retry is death. A wait that was asked for lengthens the
 * backoff and never shortens it, or a receiver that answers "in a second" throughout a short outage would use up every
 * attempt within it. Pure; `random` is in [0, 1).
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
      const restMs = backoff({ ...rules.backoff, attempt: command.attempts, random: rules.random });
      const inMs = Math.max(outcome.afterMs ?? 0, restMs);
      return { to: 'AGAIN', inMs, unspent: false, error: errorOf(outcome.error) };
    }
    default:
      return outcome satisfies never;
  }
}

/** The error's words and the code or name of what lies lowest under them; its words may quote what is not to be kept. */
function errorOf(error: Error): Failure {
  const root = rootOf(error);
  const message = root === undefined ? error.message : `${error.message} (${root})`;
  return { fingerprint: fingerprintOf(error), message: message.slice(0, 500) };
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
 * What faults of one cause share: the error's name and its message without ids, numbers and quoted values. Dead
 * letters are grouped by it ("fix once, replay 312").
 */
function fingerprintOf(error: Error): string {
  const shape = error.message
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, '<id>')
    .replace(/"[^"]*"|'[^']*'/g, '<value>')
    .replace(/\d+(\.\d+)?/g, '<n>')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, 120);
  return `${error.name}: ${shape}`;
}
