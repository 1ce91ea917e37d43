import type { Neighbour } from '#infra/config/settings.ts';
import { type FailureCode, refusedBy } from '#shared/kernel/failure.ts';
import { type CallLimits, callService, isSuccess, type ServiceReply } from './call.ts';

/** The organization and the actor on whose behalf an owner is called. */
export interface OwnerScope {
  organizationId: string;
  actor: { id: string; role: string };
}

/** Thrown if an owner refused a call or the result is unknown. The message quotes nothing of its reply. */
export class OwnerFailed extends Error {
  /** The minimum delay that the owner requested, in milliseconds; null if it requested none. */
  readonly retryAfterMs: number | null;
  readonly failure: FailureCode;

  constructor(
    owner: string,
    reason: string,
    options: { retryAfterMs?: number | null; cause?: unknown; failure?: FailureCode } = {},
  ) {
    super(`the ${owner} service ${reason}`, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'OwnerFailed';
    this.retryAfterMs = options.retryAfterMs ?? null;
    this.failure = options.failure ?? 'OWNER_FAILED';
  }
}

export interface OwnerRequest extends OwnerScope, CallLimits {
  /** Name of the owner in error messages: `usage`, `wallet`. */
  owner: string;
  method: 'GET' | 'POST';
  path: string;
  headers?: Record<string, string>;
  body?: unknown;
}

/** The sender of calls to owners and to the question bank. */
export const SENDER = 'ai-classifier-service';

/**
 * Calls an owner on behalf of an organization and an actor. Returns the reply, whatever the status.
 *
 * @throws OwnerFailed if there is no complete reply; the signal's reason, if the signal was aborted
 */
export async function callOwner(service: Neighbour, request: OwnerRequest): Promise<ServiceReply> {
  const { owner, method, path, organizationId, actor, headers, body, timeoutMs, signal } = request;
  try {
    return await callService({
      method,
      url: `${service.url}${path}`,
      sender: SENDER,
      token: service.token,
      called: service.called,
      timeoutMs,
      headers: { 'x-organization-id': organizationId, 'x-actor-id': actor.id, 'x-actor-role': actor.role, ...headers },
      ...(body === undefined ? {} : { body }),
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw new OwnerFailed(owner, 'could not be reached', { cause: error });
  }
}

/** Returns the error for a reply with another status than 2xx. */
export function refusal(owner: string, { status, retryAfterMs }: ServiceReply): OwnerFailed {
  const failure = status === 402 ? 'WALLET_EMPTY' : 'OWNER_FAILED';
  const error = new OwnerFailed(owner, `answered ${status}`, { retryAfterMs, failure });
  return refusedBy(error, { service: owner, status });
}

/** Returns the error for a success that lacks the wanted member: the owner is up, but speaks another contract. */
export function inAnotherShape(owner: string, { status }: ServiceReply, wanted: string): OwnerFailed {
  return new OwnerFailed(owner, `answered ${status} in another shape, without ${wanted}`);
}

/**
 * Returns true if the owner has applied a write with an idempotency key. A 409 means that it applied the same key before. A 409 with
 * `Retry-After` means that the same key is in progress and may still fail.
 */
export function isAccepted(reply: ServiceReply): boolean {
  return isSuccess(reply) || (reply.status === 409 && reply.retryAfterMs === null);
}
