import type { Guard, Head, HeaderDoc } from '#api/route.ts';
import type { ErrorCode } from '#shared/kernel/errors.ts';
import { secretCheck } from '#shared/kernel/secret.ts';
import { singleHeader } from './single-header.ts';

export interface KnownSenders {
  /** Services that may send here. */
  senders: readonly string[];
  /** What each of them proves itself with; one without a token is nobody. */
  tokens: Readonly<Record<string, string | undefined>>;
  unauthorizedCode: ErrorCode;
  /** Answered while none of the senders has a token: an open door would be worse than a closed one. */
  unconfiguredCode: ErrorCode;
}

/** The service that a head proves to come from, or the code of its refusal. */
export type SenderCheck = (head: Head) => { sender: string } | { rejected: ErrorCode };

export function senderCheck(known: KnownSenders): SenderCheck {
  const checks = new Map<string, (given: string) => boolean>();
  for (const sender of known.senders) {
    const isToken = secretCheck(known.tokens[sender]);
    if (isToken !== undefined) checks.set(sender, isToken);
  }
  return (head) => {
    if (checks.size === 0) return { rejected: known.unconfiguredCode };
    const sender = singleHeader(head, 'x-internal-service');
    const token = singleHeader(head, 'x-internal-token');
    const isToken = sender === undefined ? undefined : checks.get(sender);
    if (sender === undefined || token === undefined || isToken?.(token) !== true) {
      return { rejected: known.unauthorizedCode };
    }
    return { sender };
  };
}

/** The pair of headers by which a service proves itself, for OpenAPI. */
export function senderHeaders(known: KnownSenders, required: boolean): HeaderDoc[] {
  const [example] = known.senders;
  return [
    {
      name: 'x-internal-service',
      required,
      description: 'The calling service',
      ...(example === undefined ? {} : { example }),
    },
    { name: 'x-internal-token', required, description: 'What that service proves itself with' },
  ];
}

/** Demands one of several services and the token of that very one, before a byte of the body is read. Fills `identity.sender`. */
export function knownSender(known: KnownSenders): Guard {
  const check = senderCheck(known);
  return {
    name: 'knownSender',
    codes: [known.unconfiguredCode, known.unauthorizedCode],
    headers: senderHeaders(known, true),
    check(head, identity) {
      const found = check(head);
      if ('rejected' in found) return found;
      identity.sender = found.sender;
      return undefined;
    },
  };
}
