import { AsyncLocalStorage } from 'node:async_hooks';
import type { Context } from '@opentelemetry/api';
import { type Cause, traceIdOf } from '#shared/kernel/cause.ts';
import type { CommandRef } from '#shared/kernel/command.ts';

/**
 * The work in progress: a request, or the run of a command. Every command that it posts, every call to a neighbour that it makes and every
 * line that it logs belongs to it, however deep the function that does so.
 */
export interface Scope {
  /** Undefined in the run of a command without one, and until the command is claimed. */
  cause: Cause | undefined;
  /** The id that an unproven client has chosen for its request. Lines of the request name it, and nothing that it causes does. */
  clientRequestId?: string;
  /** The command that runs. */
  command?: Pick<CommandRef, '_id' | 'queue'>;
  /** Id of the command for which the request waits. */
  awaited?: string;
  /** Contains the span of the work, if an SDK is registered. */
  traced?: Context;
}

/**
 * Global: as an argument, the scope would pass through every handler and write only to reach the log. A post that forgets it would break the
 * trail unseen (docs/design-notes.md, note 32).
 */
const scopes = new AsyncLocalStorage<Scope>();

/** Runs `work` and everything that it starts in the scope. Returns and throws as `work` does. */
export function inScope<Args extends unknown[], Result>(
  scope: Scope,
  work: (...args: Args) => Result,
  ...args: Args
): Result {
  return scopes.run(scope, work, ...args);
}

/** Runs `work` outside the scope of the caller. For work of the whole process that a request or a run happens to start. */
export function outsideScopes<Result>(work: () => Result): Result {
  return scopes.exit(work);
}

/** Returns the scope of the caller; undefined outside requests and runs, such as in a poll. */
export function currentScope(): Scope | undefined {
  return scopes.getStore();
}

/** Returns the cause of the work in progress, or undefined if it has none. */
export function currentCause(): Cause | undefined {
  return scopes.getStore()?.cause;
}

/** Notes the command for which the request waits; its access line names it. */
export function noteAwaited(commandId: string): void {
  const scope = scopes.getStore();
  if (scope !== undefined) scope.awaited = commandId;
}

/** Returns the fields by which each line of the work in progress is found. The object is new at each call. */
export function scopeFields(): Record<string, unknown> {
  const scope = scopes.getStore();
  if (scope === undefined) return {};
  const { cause, clientRequestId, command } = scope;
  const traceId = traceIdOf(cause);
  return {
    ...(command === undefined ? {} : { queue: command.queue, commandId: command._id }),
    ...(cause?.requestId === undefined ? {} : { requestId: cause.requestId }),
    ...(clientRequestId === undefined ? {} : { clientRequestId }),
    ...(traceId === undefined ? {} : { traceId }),
  };
}
