import type { Settlement } from '../shared/infra/mongo/mailbox/settle-command.ts';
import { backoff } from '../shared/kernel/backoff.ts';
import type { Command, CommandError } from '../shared/kernel/command.ts';
import type { Actor } from './actor.ts';
import { fingerprintOf } from './fingerprint.ts';
import type { Outcome } from './outcome.ts';

/** The state that an outcome leaves behind: the last attempt's retry is death. Pure; `random` is in [0, 1). */
export function settlementOf(
  command: Pick<Command, 'queue' | 'attempts' | 'maxAttempts'>,
  outcome: Outcome,
  rules: { backoff: Actor['backoff']; random: number },
): Settlement {
  switch (outcome.kind) {
    case 'done':
      return { to: command.queue.startsWith('gradenotices') ? 'DELIVERED' : 'DONE', result: outcome.result ?? null };
    case 'rejected':
      return { to: 'REJECTED', result: outcome.result ?? null };
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
      const inMs = outcome.afterMs ?? backoff({ ...rules.backoff, attempt: command.attempts, random: rules.random });
      return { to: 'AGAIN', inMs, unspent: false, error: errorOf(outcome.error) };
    }
    default:
      return outcome satisfies never;
  }
}

function errorOf(error: Error): CommandError {
  return { fingerprint: fingerprintOf(error), message: error.message.slice(0, 500), at: new Date() };
}
