import type { Neighbour } from '#infra/config/settings.ts';
import { callService, isSuccess, type Patience, type ServiceReply } from './call.ts';

/** In whose name an owner is called. */
export interface OwnerScope {
  organizationId: string;
  actor: { id: string; role: string };
}

/** An owner did not do what it was asked, or it is not known whether it did. Its words are not passed on. */
export class OwnerFailed extends Error {
  /** The least wait that it asked for (ms); null = it said nothing. */
  readonly retryAfterMs: number | null;

  constructor(owner: string, reason: string, options: { retryAfterMs?: number | null; cause?: unknown } = {}) {
    super(`the ${owner} service ${reason}`, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'OwnerFailed';
    this.retryAfterMs = options.retryAfterMs ?? null;
  }
}

export interface OwnerRequest extends OwnerScope, Patience {
  /** For messages: `usage`, `wallet`. */
  owner: string;
  method: 'GET' | 'POST';
  path: string;
  headers?: Record<string, string>;
  body?: unknown;
}

/** As whom owners and the question bank are called. */
export const SENDER = 'ai-classifier-service';

/**
 * One call in the name of an organization and an actor. Any answer is a reply.
 * @throws OwnerFailed without one; the signal's reason when that was aborted
 */
export async function callOwner(service: Neighbour, request: OwnerRequest): Promise<ServiceReply> {
  const { owner, method, path, organizationId, actor, headers, body, timeoutMs, signal } = request;
  try {
    return await callService({
      method,
      url: `${service.url}${path}`,
      sender: SENDER,
      token: service.token,
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

/** For an answer that is no success. */
export function refusal(owner: string, { status, retryAfterMs }: ServiceReply): OwnerFailed {
  return new OwnerFailed(owner, `answered ${status}`, { retryAfterMs });
}

/**
 * A write under a key: what the owner has done already, under that key, is done. A conflict that asks to come again says something
 * else: it is being done just now, and may still fail.
 */
export function isTaken(reply: ServiceReply): boolean {
  return isSuccess(reply) || (reply.status === 409 && reply.retryAfterMs === null);
}
